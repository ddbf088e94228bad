import { nameKey } from '../domain/names.ts'
import { unavailable } from '../git/errors.ts'
import type { OpenedRepository } from '../git/opened-repository.ts'
import { decodeLatin1 } from '../git/run-git.ts'
import { type RefList, readRefList } from '../git/transfer.ts'
import type { AuditLine, PushDetails } from '../store/audit/audit.ts'
import type { Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'
import type { RepositoryContent, RepositoryCopy } from './backup/generations.ts'

/** What the audit log and the pushes under way say about refs. */
interface History {
  /** Events before this time, and backups, say nothing: a restore or `audit prune` came after. */
  floor: number
  /** The pushes of each repository, by the key of its name. */
  pushes: Map<string, PushRecord[]>
  /** Refs that pushes under way name, by the id of the repository. */
  open: Map<number, Set<string>>
}

interface PushRecord extends Partial<PushDetails> {
  time: string
}

interface ExpectedRef {
  id: string
  /** Where that is known from, such as "push of TIME". */
  source: string
}

/** Findings per repository. */
const MAX_FINDINGS = 20
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
 * @param copies the repositories of the backup
 */
export async function compareWithExpectedRefs(store: Store, copies: readonly RepositoryCopy[]) {
  const before = await readHistory(store)
  const suspects: { repository: Repository; list: RefList; refs: Map<string, ExpectedRef> }[] = []
  const expected = (repository: Repository, list: RefList, history: History) => {
    const copy = copies.find(
      ({ id, created_at }) => id === repository.id && created_at === repository.createdAt,
    )
    return expectedRefs(repository, copy, list, history)
  }

  return {
    /** @throws RepositoryUnavailable */
    async add(repository: Repository, opened: OpenedRepository): Promise<void> {
      if (!repository.managed) return
      const list = await readRefList(opened).catch((error: unknown) => {
        throw unavailable(repository.path, error)
      })
      const present = refsOf(list)
      const refs = [...expected(repository, list, before)].filter(([ref, { id }]) => present.get(ref) !== id)
      if (refs.length > 0) suspects.push({ repository, list, refs: new Map(refs) })
    },

    /** Returns a sentence for each ref that is not what it was expected to be all the time. */
    async findings(): Promise<string[]> {
      if (suspects.length === 0) return []
      const after = await readHistory(store)
      const repositories = await store.repositories.list()
      return suspects.flatMap(({ repository, list, refs }) => {
        const { id, owner, name } = repository
        const isSame = repositories.some((it) => it.id === id && it.owner === owner && it.name === name)
        if (!isSame) return []
        const present = refsOf(list)
        const still = expected(repository, list, after)
        return [...refs]
          .filter(([ref, { id }]) => still.get(ref)?.id === id)
          .slice(0, MAX_FINDINGS)
          .map(([ref, { id, source }]) => {
            const now = present.has(ref) ? `is ${present.get(ref)}` : 'is missing'
            return `repository ${owner}/${name}: ${ref} ${now}; expected ${id} (${source})`
          })
      })
    },
  }
}

async function readHistory({ auditLog, pushes }: Store): Promise<History> {
  const history: History = { floor: 0, pushes: new Map(), open: new Map() }
  // In this order: the end of a push removes it and stores its event at once.
  for (const { repositoryId, ref } of await pushes.listOpenRefs()) {
    const refs = history.open.get(repositoryId) ?? new Set()
    history.open.set(repositoryId, refs.add(ref))
  }
  for await (const lines of auditLog.list({})) for (const line of lines) addEvent(history, line)
  return history
}

function addEvent(history: History, { time, action, object, details }: AuditLine): void {
  if (action === 'backup.restored') history.floor = Math.max(history.floor, Date.parse(time))
  if (action === 'audit.pruned')
    history.floor = Math.max(history.floor, Date.parse(String(details.before)) || 0)
  // Earlier pushes have the former name; a record without updates stands for those.
  const isRename = action === 'repository.renamed' || action === 'repository.transferred'
  if (action !== 'push' && !isRename) return
  const key = nameKey(object)
  const records = history.pushes.get(key) ?? []
  // Only `recordEvents` writes details.
  records.push({ ...(action === 'push' && (details as object as Partial<PushDetails>)), time })
  history.pushes.set(key, records)
}

function expectedRefs(
  { id, owner, name, createdAt }: Repository,
  copy: RepositoryCopy | undefined,
  list: RefList,
  { floor, pushes, open }: History,
): Map<string, ExpectedRef> {
  const content = copy?.content && Date.parse(copy.content.copied_at) >= floor ? copy.content : null
  const since = content ? Date.parse(content.copied_at) : Math.max(floor, (createdAt + 1) * 1000)
  const records = (pushes.get(nameKey(`${owner}/${name}`)) ?? []).filter(
    ({ time }) => Date.parse(time) >= Math.max(floor, content ? since - CLOCK_SKEW : since),
  )
  if (records.some(({ updates, more }) => !updates || more)) return new Map()

  const unjudged = new Set([...(open.get(id) ?? []), 'HEAD'])
  for (const line of [...list.symbolic, ...(content?.symbolic ?? [])]) {
    const [name = '', target = ''] = decodeLatin1(line).split(' ')
    // A push to a symbolic ref moves its target.
    if (name !== 'HEAD') unjudged.add(name).add(target)
  }
  for (const { unknown = [] } of records) for (const { ref } of unknown) unjudged.add(ref)

  // The clock of the server may be behind the one of the backup.
  const later = records.filter(({ time }) => Date.parse(time) >= since)
  const possible = endsOfChains(content, records)
  const refs = [...endsOfChains(content, content ? later : records)].filter(
    ([ref, { id }]) =>
      (possible.get(ref)?.id ?? id) === id &&
      !(id === '' || unjudged.has(ref) || ref.length > MAX_NAME || ref.includes('\ufffd')),
  )
  return new Map(refs)
}

/** Returns the refs whose moves form one chain, and its end; '' if the ref was deleted. */
function endsOfChains(content: RepositoryContent | null, records: PushRecord[]): Map<string, ExpectedRef> {
  const copiedRefs = content ? refsOf(content) : null
  // How much more often each ref was moved to an id than away from it.
  const balances = new Map<string, Map<string, number>>()
  const sources = new Map<string, string>()
  const add = (ref: string, id: string, by: number) => {
    const balance = balances.get(ref) ?? new Map(copiedRefs && [[copiedRefs.get(ref) ?? '', 1]])
    balances.set(ref, balance.set(id, (balance.get(id) ?? 0) + by))
  }
  for (const [ref, id] of copiedRefs ?? []) add(ref, id, 0)
  for (const { updates = [], time } of records)
    for (const update of updates) {
      add(update.ref, update.old.replace(/^0+$/, ''), -1)
      add(update.ref, update.new.replace(/^0+$/, ''), 1)
      sources.set(`${update.ref} ${update.new}`, `push of ${time}`)
    }

  const ends = new Map<string, ExpectedRef>()
  for (const [ref, balance] of balances) {
    const unbalanced = [...balance].filter(([, count]) => count !== 0)
    const [end, ...others] = unbalanced.sort((a, b) => b[1] - a[1])
    // The start of a chain without a backup has -1.
    const isChain =
      end?.[1] === 1 && others.length <= (copiedRefs ? 0 : 1) && others.every(([, n]) => n === -1)
    if (!isChain) continue
    const [id] = end
    ends.set(ref, { id, source: sources.get(`${ref} ${id}`) ?? `backup of ${content?.copied_at}` })
  }
  return ends
}

/** Returns ids by names. */
function refsOf({ refs }: RefList): Map<string, string> {
  return new Map(
    refs.map((line) => {
      const space = line.indexOf(' ')
      return [decodeLatin1(line.slice(space + 1)), line.slice(0, space)]
    }),
  )
}
