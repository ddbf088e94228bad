import { nameKey } from '../../src/domain/names.ts'
import { PERMISSIONS, type Permission } from '../../src/domain/permissions.ts'
import { Refusal } from '../../src/domain/refusal.ts'
import type { Store } from '../../src/store/store.ts'
import { asAdministrator } from './changes.ts'
import { createRandom, type Random } from './random.ts'

const USERS = ['Ann', 'ben', 'cat', 'dan']
const GROUPS = ['acme', 'Team']
const NAMES = ['one', 'Two']
const ACCESS = [...PERMISSIONS, null] as const

interface ModelUser {
  id: number
  isLocked: boolean
  /** Ids of the repositories to which the user's second token is limited. */
  limit: number
}

interface ModelRepository {
  owner: string
  name: string
  isPublic: boolean
  granted: Map<string, Permission>
}

/** What the rules say, without a database: names in lower case lead to what they name. */
interface Model {
  users: Map<string, ModelUser>
  members: Map<string, Map<string, Permission>>
  repositories: Map<number, ModelRepository>
  /** OWNER/NAME of what is reserved, and the repository that had it. */
  reserved: Map<string, number>
}

const keyOf = ({ owner, name }: { owner: string; name: string }) => nameKey(`${owner}/${name}`)

function greatest(...permissions: (Permission | undefined)[]): Permission | null {
  return PERMISSIONS.findLast((permission) => permissions.includes(permission)) ?? null
}

/**
 * Changes users, groups, access, names and tokens at random, and compares all decisions with a
 * model after each change.
 *
 * @returns the first differences, and how many decisions were compared
 */
export async function compareWithModel(
  store: Store,
  { steps, seed }: { steps: number; seed: number },
): Promise<{ differences: string[]; decisions: number }> {
  const random = createRandom(seed)
  const model: Model = {
    users: new Map(),
    members: new Map(GROUPS.map((name) => [nameKey(name), new Map()])),
    repositories: new Map(),
    reserved: new Map(),
  }
  for (const name of GROUPS) await asAdministrator(store).groups.create(name)
  for (const name of USERS) await addUser(store, model, name)
  let decisions = 0
  for (let step = 0; step < steps; step++) {
    const change = random.pick(CHANGES)
    const what = await change(store, model, random)
    const differences: string[] = []
    decisions += await compare(store, model, (difference) =>
      differences.push(`${step}: ${what}: ${difference}`),
    )
    if (differences.length > 0) return { differences, decisions }
  }
  return { differences: [], decisions }
}

async function addUser(store: Store, model: Model, name: string): Promise<void> {
  const { id } = await asAdministrator(store).users.create(name, { ownExisting: true })
  const limit = [...model.repositories.keys()].at(-1) ?? 1_000
  for (const [hash, repositories] of [
    [`${id} all`, null],
    [`${id} limited`, [limit]],
  ] as const) {
    const token = { userId: id, name: '', prefix: '', hash, scopes: ['repo'], expiresAt: null }
    await asAdministrator(store).tokens.create({
      ...token,
      limits: { repositories, contexts: null, push: true },
    })
  }
  model.users.set(nameKey(name), { id, isLocked: false, limit })
  model.members.set(nameKey(name), new Map([[nameKey(name), 'admin']]))
}

type Change = (store: Store, model: Model, random: Random) => Promise<string>

const visibility: Change = async (store, model, random) => {
  const repository = random.pick([...model.repositories.values()])
  if (!repository) return 'nothing'
  repository.isPublic = !repository.isPublic
  const { owner, name, isPublic } = repository
  await asAdministrator(store).repositories.setVisibility({ owner, name }, isPublic ? 'public' : 'private')
  return `visibility of ${owner}/${name}`
}

const create: Change = async (store, model, random) => {
  const names = { owner: random.pick([...USERS, ...GROUPS]) ?? '', name: random.pick(NAMES) ?? '' }
  const isPublic = random.onceIn(3)
  const isFree =
    ![...model.repositories.values()].some((other) => keyOf(other) === keyOf(names)) &&
    !model.reserved.has(keyOf(names))
  const visibility = isPublic ? 'public' : 'private'
  const created = await ifAllowed(isFree, () =>
    asAdministrator(store).repositories.create({ ...names, visibility, objectFormat: 'sha1' }),
  )
  if (!created) return `refused ${keyOf(names)}`
  model.repositories.set(created.id, { ...names, isPublic, granted: new Map() })
  // A user of the name may have been deleted: then the name is a group's.
  if (!model.members.has(nameKey(names.owner))) model.members.set(nameKey(names.owner), new Map())
  return `create ${keyOf(names)}`
}

const grant: Change = async (store, model, random) => {
  const repository = random.pick([...model.repositories.values()])
  const user = random.pick([...model.users])
  if (!repository || !user) return 'nothing'
  const permission = random.pick(ACCESS) ?? null
  await asAdministrator(store).collaborators.set(repository, user[1].id, permission)
  if (permission) repository.granted.set(user[0], permission)
  else repository.granted.delete(user[0])
  return `grant ${permission} on ${keyOf(repository)} to ${user[0]}`
}

const member: Change = async (store, model, random) => {
  const user = random.pick([...model.users])
  const group = random.pick([...model.members.keys()].filter((name) => !model.users.has(name)))
  if (!user || !group) return 'nothing'
  const permission = random.pick(ACCESS) ?? null
  await asAdministrator(store).members.set(group, user[1].id, permission)
  if (permission) model.members.get(group)?.set(user[0], permission)
  else model.members.get(group)?.delete(user[0])
  return `member ${user[0]} of ${group}: ${permission}`
}

const rename: Change = async (store, model, random) => {
  const found = random.pick([...model.repositories])
  if (!found) return 'nothing'
  const [id, repository] = found
  const before = { owner: repository.owner, name: repository.name }
  const to = { owner: random.pick([...model.members.keys()]) ?? '', name: random.pick(NAMES) ?? '' }
  const isFree = ![...model.repositories].some(([other, row]) => other !== id && keyOf(row) === keyOf(to))
  const isReserved = (model.reserved.get(keyOf(to)) ?? id) !== id
  const what = `rename ${keyOf(before)} to ${keyOf(to)}`
  const rename = async () => (await asAdministrator(store).repositories.rename(before, to)) ?? true
  if (!(await ifAllowed(isFree && !isReserved, rename))) return `refused ${what}`
  if (keyOf(before) !== keyOf(to)) {
    model.reserved.delete(keyOf(to))
    model.reserved.set(keyOf(before), id)
  }
  Object.assign(repository, to)
  return what
}

const release: Change = async (store, model, random) => {
  const name = random.pick([...model.reserved.keys()])
  if (!name) return 'nothing'
  const [owner = '', repository = ''] = name.split('/')
  await asAdministrator(store).reservedNames.release({ owner, name: repository })
  model.reserved.delete(name)
  return `release ${name}`
}

const lock: Change = async (store, model, random) => {
  const user = random.pick([...model.users])
  if (!user) return 'nothing'
  user[1].isLocked = !user[1].isLocked
  await asAdministrator(store).users.setLocked(user[0], user[1].isLocked)
  return `lock ${user[0]}: ${user[1].isLocked}`
}

const remove: Change = async (store, model, random) => {
  const found = random.onceIn(2) ? random.pick([...model.repositories]) : undefined
  if (!found) return 'nothing'
  model.repositories.delete(found[0])
  await asAdministrator(store).repositories.delete({ owner: found[1].owner, name: found[1].name })
  return `delete ${keyOf(found[1])}`
}

/** Deletes a user, or creates one again who was deleted. */
const replace: Change = async (store, model, random) => {
  const name = random.pick(USERS) ?? ''
  const key = nameKey(name)
  if (!model.users.has(key)) {
    if ((model.members.get(key)?.size ?? 0) > 0) return 'nothing'
    await addUser(store, model, name)
    return `create ${name}`
  }
  const owned = [...model.repositories.values()].some((row) => nameKey(row.owner) === key)
  if (!(await ifAllowed(!owned, async () => asAdministrator(store).users.delete(name))))
    return `refused to delete ${name}`
  model.users.delete(key)
  for (const others of [
    ...model.members.values(),
    ...[...model.repositories.values()].map((row) => row.granted),
  ])
    others.delete(key)
  if (![...model.reserved.keys()].some((reserved) => reserved.startsWith(`${key}/`)))
    model.members.delete(key)
  return `delete ${name}`
}

const CHANGES = [
  create,
  create,
  visibility,
  grant,
  grant,
  member,
  member,
  rename,
  release,
  lock,
  remove,
  replace,
]

/**
 * Expects that a change is refused unless it is allowed. Returns what it returned, or undefined.
 */
async function ifAllowed<T>(isAllowed: boolean, change: () => Promise<T>): Promise<T | undefined> {
  try {
    const done = await change()
    if (!isAllowed) throw new Error('a change should have been refused')
    return done
  } catch (error) {
    if (isAllowed || !(error instanceof Refusal)) throw error
    return undefined
  }
}

/** Compares all decisions. Returns how many. */
async function compare(store: Store, model: Model, report: (difference: string) => void): Promise<number> {
  let decisions = 0
  const expect = (what: string, found: unknown, wanted: unknown) => {
    decisions++
    if (found !== wanted) report(`${what}: ${found} instead of ${wanted}`)
  }
  const byName = new Map([...model.repositories].map(([id, row]) => [keyOf(row), { id, ...row }]))
  const names = [...USERS, ...GROUPS].flatMap((owner) => NAMES.map((name) => ({ owner, name })))
  const entries = await store.collaborators.listAll()
  const byUser = (some: typeof entries) =>
    // The first of a user is the one that decides.
    new Map(some.toReversed().map((entry) => [`${entry.repositoryId} ${nameKey(entry.user ?? '')}`, entry]))
  const listed = byUser(entries)
  const grants = byUser(entries.filter(({ reason }) => reason === 'granted'))
  const seen = (repository: { id: number; permission: Permission | null } | null) =>
    repository ? `${repository.id} ${repository.permission}` : null
  for (const names_ of names) {
    const row = byName.get(keyOf(names_))
    const wanted = (held: Permission | null) =>
      row && (row.isPublic || held !== null) ? `${row.id} ${held}` : null
    const path = [names_.owner.toUpperCase(), names_.name] as const
    expect(
      `anonymous ${keyOf(names_)}`,
      seen((await store.access.find(null, null, ...path)).repository),
      wanted(null),
    )
    if (row) expect(`everyone ${keyOf(row)}`, listed.has(`${row.id} `), row.isPublic)
    for (const [user, { id, isLocked, limit }] of model.users) {
      const all = row
        ? greatest(model.members.get(nameKey(row.owner))?.get(user), row.granted.get(user))
        : null
      const what = `${user} on ${keyOf(names_)}`
      if (row) {
        expect(`list of ${what}`, listed.get(`${row.id} ${user}`)?.permission ?? null, all)
        expect(`grants of ${what}`, grants.get(`${row.id} ${user}`)?.permission, row.granted.get(user))
      }
      const held = isLocked ? null : all
      expect(`page of ${what}`, seen(await store.listing.find(id, ...path)), wanted(held))
      const byToken = held === 'admin' ? 'write' : held
      for (const [kind, limited] of [
        ['all', byToken],
        ['limited', row?.id === limit ? byToken : null],
      ] as const) {
        const { token, repository } = await store.access.find(null, `${id} ${kind}`, ...path)
        expect(`${kind} token of ${what}`, seen(repository), wanted(limited))
        expect(`${kind} token of ${user}`, token === null, isLocked)
      }
    }
  }
  return decisions
}
