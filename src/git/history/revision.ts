import type { FairQueue, QueueClient } from '../../schedule/fair-queue.ts'
import { bytesOfTexts, shareOfMemory } from '../../util/memory.ts'
import { cannotOpen, unavailable } from '../errors.ts'
import type { CommitLookup } from '../objects/commit-lookup.ts'
import type { LookupRepository } from '../objects/lookup-queue.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { RecordParser, readDate } from '../record-parser.ts'
import { readGit, runGit } from '../run-git.ts'
import { CachedReads, runInSlot } from './cached-reads.ts'

/** A commit for display. */
export interface CommitDetails {
  /** Full ids of the first parents, at most `MAX_PARENTS`. */
  parents: string[]
  /** Whether the commit has more parents. */
  moreParents: boolean
  author: string
  /** Author date, ISO 8601 in UTC; null if the commit has no valid date. */
  date: string | null
  subject: string
  /** The message after the subject. */
  body: string
  /** Whether the end of the message is missing, because it is too long. */
  isCut: boolean
}

/** Milliseconds that one git process may take. */
const TIMEOUT = 5_000
/** Maximum number of bytes kept of a message and of other fields. */
const FIELD_LENGTH = 16 * 1024
const MAX_PARENTS = 16
/** Maximum number of bytes read of git's output. */
const OUTPUT_LENGTH = 256 * 1024
/** Bytes of commits in memory. The least recently used ones are dropped. */
const CACHE_BYTES = shareOfMemory(4)

/** The message is last: its end can be left out. */
const FORMAT = ['%P', '%an', '%aI', '%B'].join('%x00')

/**
 * Finds and describes single commits for pages.
 *
 * A few git processes run at a time, shared fairly between clients. Each has a deadline, and its
 * output is limited.
 */
export class Revisions {
  readonly #lookup: CommitLookup
  readonly #queue: FairQueue
  readonly #commits: CachedReads<CommitDetails>

  constructor(queue: FairQueue, lookup: CommitLookup) {
    this.#queue = queue
    this.#lookup = lookup
    this.#commits = new CachedReads(
      queue,
      CACHE_BYTES,
      ({ parents, author, subject, body }) => 300 + bytesOfTexts([...parents, author, subject, body]),
    )
  }

  /** Returns the ids of commits that begin with a short id in lower case. Throws as `runInSlot`. */
  async withPrefix(repository: LookupRepository, prefix: string, client: QueueClient): Promise<string[]> {
    const args = ['rev-parse', `--disambiguate=${prefix}`]
    const read = (opened: OpenedRepository) =>
      readGit(opened, args, { timeout: TIMEOUT, signal: client.signal })
    const text = await runInSlot(this.#queue, repository, client, read).catch((error: unknown) => {
      throw unavailable(repository.path, error)
    })
    const ids = text.split('\n').filter((id) => id.startsWith(prefix))
    const isCommit = await Promise.all(ids.map((id) => this.#lookup.has(repository, id)))
    return ids.filter((_, index) => isCommit[index])
  }

  /**
   * Returns the content of a commit, or undefined if git does not have it.
   *
   * @param sha full id in lower case
   */
  async describe(
    repository: LookupRepository,
    sha: string,
    client: QueueClient,
  ): Promise<CommitDetails | undefined> {
    const key = `${repository.id} ${sha}`
    if (!this.#commits.has(key) && !(await this.#lookup.has(repository, sha))) return undefined
    return this.#commits.get(repository, key, client, {
      read: (opened, signal) => readCommit(opened, sha, signal),
    })
  }
}

async function readCommit(
  repository: OpenedRepository,
  sha: string,
  signal: AbortSignal,
): Promise<CommitDetails> {
  const parser = new RecordParser({ fields: 4, fieldLength: FIELD_LENGTH, outputLength: OUTPUT_LENGTH })
  const args = ['log', '-z', '--no-walk', '--no-show-signature', `--format=${FORMAT}`, sha, '--']
  const failure = await runGit(repository, args, parser, TIMEOUT, signal)
  const [record] = parser.records
  if (!record) throw cannotOpen(repository.path, failure?.message ?? 'git printed nothing', failure)

  const [parents = '', author = '', date = '', message = ''] = record
  const ids = parents.split(' ').filter((id) => id.length === sha.length)
  const [first = '', ...rest] = message.trim().split(/\n\s*\n/)
  return {
    parents: ids.slice(0, MAX_PARENTS),
    moreParents: ids.length > MAX_PARENTS,
    author: author.slice(0, 300),
    date: readDate(date),
    subject: first.replaceAll('\n', ' '),
    body: rest.join('\n\n').trim(),
    // A character of several bytes may be cut.
    isCut: Buffer.byteLength(message) > FIELD_LENGTH - 4,
  }
}
