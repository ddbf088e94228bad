import { NO_OBJECT } from '../domain/commit-id.ts'
import { nameKey } from '../domain/names.ts'
import { unavailable } from '../git/errors.ts'
import type { OpenedRepository } from '../git/opened-repository.ts'
import { decodeLatin1 } from '../git/run-git.ts'
import { type RefList, readRefList } from '../git/transfer.ts'
import type { AuditLine, PushDetails } from '../store/audit/audit.ts'
import type { Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'
import type { RepositoryContent, RepositoryCopy } from './backup/generations.ts'

/** What a ref should be. */
interface ExpectedRef {
  /** The id that it has; `ABSENT` if it does not exist. */
  id: string
  /** Where that is known from, such as "push of TIME". */
  source: string
}

/** A repository with refs that were not what they should be when it was read. */
interface UnexpectedRefs {
  repository: Repository
  list: RefList
  /** Those refs, by their names. */
  refs: Map<string, ExpectedRef>
}

/** What the audit log and the pushes under way say about refs. */
interface History {
  /** Events and backups before this time say nothing: a restore or `audit prune` came after. */
  validFrom: number
  /** The pushes of each repository, by the key of its name. */
  pushes: Map<string, PushRecord[]>
  /** Refs that pushes under way name, by the id of the repository. */
  underWay: Map<number, Set<string>>
}

/** A push by its event; one without updates stands for any number of pushes. */
interface PushRecord extends Partial<PushDetails> {
  time: string
}

/** The id of a ref that does not exist. */
const ABSENT = ''
/** Refs of a repository that are named; the others are counted. */
const MAX_NAMED = 20
/** Milliseconds by which the clocks of hosts may differ. */
const CLOCK_SKEW = 60_000
/** Longer names, and those that are not UTF-8, are changed in events. */
const MAX_NAME = 250

/**
 * Compares the refs of repositories with those of a backup and with the pushes since then. git
 * itself treats a lost `packed-refs` as a repository without these refs.
 *
 * A false alarm is worse than a miss. So a ref is only judged if the backup and the moves in events
 * form one chain, in whatever order they were recorded:
 *
 * ```
 *   backup: a    push: a → b    push: b → c      c is expected
 *   backup: a    push: b → c                     not judged: somebody else moved it to b
 *   no backup    push: b → c                     c is expected
 * ```
 *
 * Not judged are imported repositories, to which others write; refs that a push under way names or
 * that an `unknown` update may have moved, targets of symbolic refs, and repositories that were
 * renamed since the backup or have an event that lists only a part of its updates.
 *
 * Pushes go on meanwhile. So a ref is a finding only if what it should be is the same by the history
 * before it was read and by the one after.
 *
 * @param copies the repositories of the backup
 */
export async function compareWithExpectedRefs(store: Store, copies: readonly RepositoryCopy[]) {
  const before = await readHistory(store)
  const found: UnexpectedRefs[] = []

  return {
    /** @throws RepositoryUnavailable */
    async add(repository: Repository, opened: OpenedRepository): Promise<void> {
      if (!repository.managed) return
      const list = await readRefList(opened).catch((error: unknown) => {
        throw unavailable(repository.path, error)
      })
      const present = idsByName(list)
      const refs = expectedRefs(repository, list, copies, before)
      for (const [ref, { id }] of refs) if (present.get(ref) === id) refs.delete(ref)
      if (refs.size > 0) found.push({ repository, list, refs })
    },

    /** Returns a sentence for each ref that is not what it was expected to be all the time. */
    async findings(): Promise<string[]> {
      if (found.length === 0) return []
      const after = await readHistory(store)
      const repositories = await store.repositories.list()
      const isSame = ({ id, owner, name }: Repository) =>
        repositories.some((it) => it.id === id && it.owner === owner && it.name === name)
      return found
        .filter(({ repository }) => isSame(repository))
        .flatMap((unexpected) => {
          const still = expectedRefs(unexpected.repository, unexpected.list, copies, after)
          return findingsOf(unexpected, still)
        })
    },
  }
}

/**
 * Returns a sentence for each of the first refs that should still be what they are not, and one
 * for all others.
 */
function findingsOf({ repository, list, refs }: UnexpectedRefs, still: Map<string, ExpectedRef>): string[] {
  const present = idsByName(list)
  const unexpected = [...refs].filter(([ref, { id }]) => still.get(ref)?.id === id)
  const sentences = unexpected.slice(0, MAX_NAMED).map(([ref, { id, source }]) => {
    const now = present.has(ref) ? `is ${present.get(ref)}` : 'is missing'
    return `${ref} ${now}; expected ${id} (${source})`
  })
  const more = unexpected.length - sentences.length
  if (more > 0) sentences.push(more === 1 ? 'and 1 more ref like these' : `and ${more} more refs like these`)
  return sentences.map((text) => `repository ${repository.owner}/${repository.name}: ${text}`)
}

async function readHistory({ auditLog, pushes }: Store): Promise<History> {
  const history: History = { validFrom: 0, pushes: new Map(), underWay: new Map() }
  // In this order: the end of a push removes it and stores its event at once.
  for (const { repositoryId, ref } of await pushes.listOpenRefs()) {
    const refs = history.underWay.get(repositoryId) ?? new Set()
    history.underWay.set(repositoryId, refs.add(ref))
  }
  for await (const lines of auditLog.list({})) for (const line of lines) addEvent(history, line)
  return history
}

function addEvent(history: History, { time, action, object, details }: AuditLine): void {
  if (action === 'backup.restored') history.validFrom = Math.max(history.validFrom, Date.parse(time))
  if (action === 'audit.pruned')
    history.validFrom = Math.max(history.validFrom, Date.parse(String(details.before)) || 0)
  // Earlier pushes have the former name; a record without updates stands for those.
  const isRename = action === 'repository.renamed' || action === 'repository.transferred'
  if (action !== 'push' && !isRename) return
  const key = nameKey(object)
  const records = history.pushes.get(key) ?? []
  // Only `recordEvents` writes details.
  records.push({ ...(action === 'push' && (details as object as Partial<PushDetails>)), time })
  history.pushes.set(key, records)
}

/** Returns what the refs of a repository should be, as far as that can be judged. */
function expectedRefs(
  repository: Repository,
  list: RefList,
  copies: readonly RepositoryCopy[],
  history: History,
): Map<string, ExpectedRef> {
  const backup = backupOf(repository, copies, history)
  const pushes = pushesTo(repository, backup, history)
  if (pushes.some(({ updates, more }) => !updates || more)) return new Map()

  // The clock of the server may be behind the one of the backup: whether the first pushes are in it is
  // not known, so a ref is judged only if that makes no difference.
  const copiedAt = backup ? Date.parse(backup.copied_at) : 0
  const later = pushes.filter(({ time }) => Date.parse(time) >= copiedAt)
  const refs = endsOfChains(backup, later)
  const otherwise = backup ? endsOfChains(backup, pushes) : refs
  const unjudged = unjudgedRefs(repository, list, backup, pushes, history)
  for (const [ref, { id }] of refs) {
    const isCertain = (otherwise.get(ref)?.id ?? id) === id
    const isChanged = ref.length > MAX_NAME || ref.includes('\ufffd')
    if (id === ABSENT || !isCertain || isChanged || unjudged.has(ref)) refs.delete(ref)
  }
  return refs
}

/** Returns the content of a repository in the backup; null if there is none that says something. */
function backupOf(
  { id, createdAt }: Repository,
  copies: readonly RepositoryCopy[],
  { validFrom }: History,
): RepositoryContent | null {
  const content = copies.find((copy) => copy.id === id && copy.created_at === createdAt)?.content
  return content && Date.parse(content.copied_at) >= validFrom ? content : null
}

/** Returns the pushes since the backup, or the creation of the repository. */
function pushesTo(
  { owner, name, createdAt }: Repository,
  backup: RepositoryContent | null,
  { validFrom, pushes }: History,
): PushRecord[] {
  const since = backup ? Date.parse(backup.copied_at) - CLOCK_SKEW : (createdAt + 1) * 1000
  return (pushes.get(nameKey(`${owner}/${name}`)) ?? []).filter(
    ({ time }) => Date.parse(time) >= Math.max(validFrom, since),
  )
}

/** Returns the refs that are moved in other ways, or may be. */
function unjudgedRefs(
  { id }: Repository,
  list: RefList,
  backup: RepositoryContent | null,
  pushes: readonly PushRecord[],
  { underWay }: History,
): Set<string> {
  const refs = new Set([...(underWay.get(id) ?? []), 'HEAD'])
  for (const line of [...list.symbolic, ...(backup?.symbolic ?? [])]) {
    const [name = '', target = ''] = decodeLatin1(line).split(' ')
    // A push to a symbolic ref moves its target.
    if (name !== 'HEAD') refs.add(name).add(target)
  }
  for (const { unknown = [] } of pushes) for (const { ref } of unknown) refs.add(ref)
  return refs
}

/** Returns the refs whose moves form one chain, and its end. */
function endsOfChains(
  backup: RepositoryContent | null,
  pushes: readonly PushRecord[],
): Map<string, ExpectedRef> {
  const copied = backup && idsByName(backup)
  /** How much more often each ref was moved to an id than away from it. The backup has moved it to its own. */
  const balances = new Map<string, Map<string, number>>()
  const sources = new Map<string, string>()
  const balanceOf = (ref: string) => {
    const balance = balances.get(ref) ?? new Map(copied && [[copied.get(ref) ?? ABSENT, 1]])
    balances.set(ref, balance)
    return balance
  }
  for (const ref of copied?.keys() ?? []) balanceOf(ref)
  for (const { updates = [], time } of pushes)
    for (const { ref, old, new: id } of updates) {
      const balance = balanceOf(ref)
      const [from, to] = [idOf(old), idOf(id)]
      balance.set(from, (balance.get(from) ?? 0) - 1)
      balance.set(to, (balance.get(to) ?? 0) + 1)
      sources.set(`${ref} ${id}`, `push of ${time}`)
    }

  const ends = new Map<string, ExpectedRef>()
  for (const [ref, balance] of balances) {
    const id = endOf(balance, backup !== null)
    if (id === undefined) continue
    ends.set(ref, { id, source: sources.get(`${ref} ${id}`) ?? `backup of ${backup?.copied_at}` })
  }
  return ends
}

/**
 * Returns the end of the moves of a ref; undefined unless they form one chain: all ids are left as
 * often as they are reached, except its end and, if nothing says where it was before, its start.
 */
function endOf(balance: ReadonlyMap<string, number>, isStartKnown: boolean): string | undefined {
  const unbalanced = [...balance].filter(([, count]) => count !== 0)
  const ends = unbalanced.filter(([, count]) => count === 1)
  const starts = unbalanced.filter(([, count]) => count === -1)
  const isChain =
    ends.length === 1 &&
    starts.length <= (isStartKnown ? 0 : 1) &&
    ends.length + starts.length === unbalanced.length
  return isChain ? ends[0]?.[0] : undefined
}

/** Returns the id of a ref by what git says of it. */
function idOf(id: string): string {
  return NO_OBJECT.test(id) ? ABSENT : id
}

/** Returns ids by names. */
function idsByName({ refs }: RefList): Map<string, string> {
  return new Map(
    refs.map((line) => {
      const space = line.indexOf(' ')
      return [decodeLatin1(line.slice(space + 1)), line.slice(0, space)]
    }),
  )
}
