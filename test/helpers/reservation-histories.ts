import { randomUUID } from 'node:crypto'
import { Refusal } from '../../src/domain/refusal.ts'
import type { Store } from '../../src/store/store.ts'
import { asAdministrator } from './changes.ts'
import { createRandom } from './random.ts'
import { addReport, addToken } from './records.ts'
import { decide, type ModelReservation, maySet, reportersIn } from './reservation-model.ts'
import type { TestServer } from './server.ts'

const STEPS = 16
const SHA = 'a'.repeat(40)
const USERS = ['a', 'b', 'c', 'd'] as const
const PATTERNS = [
  'ci/*',
  'ci/all',
  '*',
  '*/all',
  'c*l',
  'lint',
  'CI/*',
  '*i*a*',
  'ci/\u{1F6F0}*',
  '**',
] as const
const CONTEXTS = [
  'ci/all',
  'ci/build',
  'lint',
  'CI/all',
  'x/all',
  'ci/',
  'ci/\u{1F6F0}a',
  'cl',
  'ci/ａll',
] as const
const LIMITS = ['ci/*', 'c*'] as const
const ACTIONS = ['set', 'set', 'set', 'set', 'open', 'delete', 'again', 'again', 'lock'] as const

/** A user of a history, who may be deleted and made again. */
interface ModelUser {
  name: string
  /** null while there is none of the name. */
  id: number | null
  isLocked: boolean
  /** Secrets, also those of users before who had the name. */
  tokens: { secret: string; id: number; limits: readonly string[] | null }[]
}

/** What became of the reports. `gone`: their token was that of a deleted or locked user. */
export type HistoryCounts = Record<'taken' | 'limited' | 'reserved' | 'gone' | 'refusedSets', number>

/**
 * Plays random histories of reservations that change, users that are deleted and made again, and
 * reports of all of them, and compares each answer and row with the model. Each change and report goes
 * to one of two servers.
 *
 * @param stores of one database
 * @throws Error naming the history and its first step that differs
 */
export async function playHistories(
  stores: readonly [Store, Store],
  servers: readonly [Pick<TestServer, 'report'>, Pick<TestServer, 'report'>],
  { seed, histories }: { seed: number; histories: number },
): Promise<HistoryCounts> {
  const counts: HistoryCounts = { taken: 0, limited: 0, reserved: 0, gone: 0, refusedSets: 0 }
  for (let number = 0; number < histories; number++)
    await playHistory(stores, servers, createRandom(seed + number * 7919), counts)
  return counts
}

async function playHistory(
  stores: readonly [Store, Store],
  servers: readonly [Pick<TestServer, 'report'>, Pick<TestServer, 'report'>],
  random: ReturnType<typeof createRandom>,
  counts: HistoryCounts,
): Promise<void> {
  const name = randomUUID().slice(0, 18)
  const repository = { owner: 'histories', name }
  const anyStore = () => random.pick(stores)
  const change = () => asAdministrator(anyStore())
  const { id: repositoryId } = await change().repositories.create({
    ...repository,
    visibility: 'public',
    objectFormat: 'sha1',
  })
  // Git is not asked about a commit that has a status.
  await addReport({ store: stores[0], repositoryId, sha: SHA }, 'first')
  const told: string[] = []
  const seen = new Set<number>()
  let model: ModelReservation[] = []
  const fail = (problem: string): never => {
    throw new Error(`${problem}, after\n${told.join('\n')}`)
  }

  async function create(user: ModelUser): Promise<void> {
    const { id } = await change().users.create(user.name)
    if (seen.has(id)) fail(`the id of ${user.name} was another user's`)
    seen.add(id)
    Object.assign(user, { id, isLocked: false })
    await change().collaborators.set(repository, id, 'write')
    for (const limits of [null, LIMITS]) {
      const { secret } = await addToken(anyStore(), id, { limits: { contexts: limits && [...limits] } })
      user.tokens.push({ secret, id, limits })
    }
  }

  const users: ModelUser[] = USERS.map((user) => ({
    name: `${user}-${name}`,
    id: null,
    isLocked: false,
    tokens: [],
  }))
  for (const user of users) await create(user)

  const actions = {
    async set(pattern: string = random.pick(PATTERNS)) {
      const chosen = Array.from({ length: 1 + random.below(3) }, () => random.pick(users))
      const named = chosen.map(({ name, id, tokens }) => ({ name, id: id ?? tokens[0]?.id ?? 0 }))
      const others = model.filter((other) => other.pattern !== pattern)
      const added = { pattern, users: [...new Set(named.map(({ id }) => id))] }
      const isAllowed = chosen.every(({ id }) => id !== null) && maySet(others, added)
      told.push(
        `set ${pattern}: ${named.map(({ name, id }) => `${name} ${id}`)} ${isAllowed ? '' : '(refused)'}`,
      )
      const outcome = await change()
        .reservations.set(repository, pattern, named)
        .then(() => true, asRefusal)
      if (outcome !== isAllowed) fail('the reservation')
      if (isAllowed) model = [...others, added]
      else counts.refusedSets++
    },
    async open() {
      const { pattern } = random.pick([...model, { pattern: 'nothing' }])
      told.push(`open ${pattern}`)
      const outcome = await change()
        .reservations.set(repository, pattern, null)
        .then(() => true, asRefusal)
      if (outcome !== (pattern !== 'nothing')) fail('the removal')
      model = model.filter((other) => other.pattern !== pattern)
    },
    async delete() {
      const user = random.pick(users)
      told.push(`delete ${user.name}`)
      if (user.id !== null) await change().users.delete(user.name)
      user.id = null
    },
    async again() {
      const gone = users.filter(({ id }) => id === null)
      for (const user of gone) {
        await create(user)
        told.push(`${user.name} again, as ${user.id}`)
      }
    },
    async lock() {
      const user = random.pick(users)
      if (user.id === null) return
      user.isLocked = !user.isLocked
      told.push(`${user.name} is ${user.isLocked ? '' : 'un'}locked`)
      await change().users.setLocked(user.name, user.isLocked)
    },
  }

  const rowOf = (context: string) =>
    anyStore()
      .engine.kysely.selectFrom('statuses')
      .selectAll()
      .where('repository_id', '=', repositoryId)
      .where('context', '=', context)
      .executeTakeFirst()

  async function report(): Promise<void> {
    const user = random.pick(users)
    const newest = user.tokens.findLast(({ limits }) => limits === null)
    const token = (random.onceIn(3) ? random.pick(user.tokens) : newest) ?? fail('a user without a token')
    const run = random.pick([undefined, undefined, `run ${random.below(3)}`])
    const context = random.pick(CONTEXTS)
    const state = random.pick(['pending', 'success', 'success', 'failure', 'error'])
    const claim = run !== undefined && random.onceIn(3) ? { claim: 10 } : {}
    const body = { context, state, description: `${told.length}`, ...(run && { run }), ...claim }
    const isGone = user.id !== token.id || user.isLocked
    const expected = isGone ? 'gone' : decide(model, token.id, token.limits, { context, state, run })
    const before = await rowOf(context)
    const { status, json } = await random
      .pick(servers)
      .report(`${repository.owner}/${repository.name}`, SHA, body, token.secret)
    told.push(
      `${user.name} ${token.id} ${token.limits ?? ''} reports ${JSON.stringify(body)}: ${expected}, ${status} ${json.error ?? ''}`,
    )
    const row = await rowOf(context)
    const isSame = JSON.stringify(row) === JSON.stringify(before)
    const reporters = reportersIn(model, context) ?? []
    const names = users.filter(({ id }) => id !== null && reporters.includes(id)).map(({ name }) => name)
    const isRight = {
      taken:
        (status === 201 && row?.state === state && row.description === body.description) ||
        (status === 409 && run !== undefined && isSame),
      limited: status === 403 && isSame && json.error?.includes('This token may not report'),
      reserved:
        status === 403 && isSame && json.error?.includes(`reported by ${names.join(', ') || 'nobody'}.`),
      gone: status === 401 && isSame,
    }[expected]
    if (!isRight) fail('a report')
    counts[expected]++
  }

  // Most reports are of what is reserved from the beginning.
  for (const pattern of ['ci/*', '*l*']) await actions.set(pattern)
  for (let step = 0; step < STEPS; step++)
    await (random.onceIn(2) ? actions[random.pick(ACTIONS)]() : report())
  const expected = model.map(({ pattern, users: ids }) => ({
    pattern,
    users: users.filter(({ id }) => id !== null && ids.includes(id)).map(({ name }) => name),
  }))
  for (const store of stores) {
    const listed = (await store.reservations.list(repositoryId)).map(({ pattern, users }) => ({
      pattern,
      users: users.map(({ name }) => name),
    }))
    if (JSON.stringify(listed) !== JSON.stringify(expected)) fail(`the list ${JSON.stringify(listed)}`)
  }
}

function asRefusal(error: unknown): false {
  if (error instanceof Refusal) return false
  throw error
}
