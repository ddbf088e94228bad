import { LRUCache } from 'lru-cache'
import type { FairQueue } from '../../util/fair-queue.ts'
import { SharedRuns } from '../../util/shared-runs.ts'
import type { CommitLookup, LookupRepository } from '../objects/commit-lookup.ts'
import { unavailable } from '../repository-health.ts'
import { checkOwner } from '../repository-owner.ts'
import { GitFailed, readGit, runGit } from '../run-git.ts'
import type { GitClient } from './cached-reads.ts'
import { readDate } from './log-reader.ts'
import { RecordParser } from './record-parser.ts'

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
/** Maximum number of cached commits. Most are below 1 KiB; none is much larger than `FIELD_LENGTH`. */
const MAX_COMMITS = 500
/** Milliseconds for which a commit is cached. Its parents change when the repository becomes less shallow. */
const MAX_AGE = 60_000

/** The message is last: its end can be left out. */
const FORMAT = ['%P', '%an', '%aI', '%B'].join('%x00')

/**
 * Finds and describes single commits for pages.
 *
 * A few git processes run at a time, shared fairly between clients. Each has a deadline, and its output is limited.
 */
export class Revisions {
  readonly #lookup: CommitLookup
  readonly #queue: FairQueue
  readonly #runs = new SharedRuns<CommitDetails>()
  /** By repository and id. */
  readonly #commits = new LRUCache<string, CommitDetails>({ max: MAX_COMMITS, ttl: MAX_AGE })

  /** @param queue slots for git processes */
  constructor(queue: FairQueue, lookup: CommitLookup) {
    this.#queue = queue
    this.#lookup = lookup
  }

  /**
   * Returns the ids of commits that begin with a prefix.
   *
   * @param prefix a short id in lower case
   * @throws RepositoryUnavailable, QueueFull, or the signal's reason, as every method here
   */
  async withPrefix(repository: LookupRepository, prefix: string, client: GitClient): Promise<string[]> {
    const text = await this.#run(repository, client, () =>
      readGit(repository.path, ['rev-parse', `--disambiguate=${prefix}`], {
        timeout: TIMEOUT,
        signal: client.signal,
      }),
    )
    const ids = text.split('\n').filter((id) => id.startsWith(prefix))
    const isCommit = await Promise.all(ids.map((id) => this.#lookup.has(repository, id)))
    return ids.filter((_, index) => isCommit[index])
  }

  /** Returns the content of a commit, or undefined if git does not have it. @param sha full id in lower case */
  async describe(
    repository: LookupRepository,
    sha: string,
    client: GitClient,
  ): Promise<CommitDetails | undefined> {
    const key = `${repository.id} ${sha}`
    const known = this.#commits.get(key)
    if (known) return known
    if (!(await this.#lookup.has(repository, sha))) return undefined
    const read = async (signal: AbortSignal) => {
      const details =
        this.#commits.get(key) ??
        (await this.#run(repository, { ...client, signal }, () => readCommit(repository.path, sha, signal)))
      this.#commits.set(key, details)
      return details
    }
    return this.#runs.join(key, read, client.signal)
  }

  async #run<T>(
    repository: LookupRepository,
    { address, signal }: GitClient,
    work: () => Promise<T>,
  ): Promise<T> {
    const checked = () => checkOwner(repository).then(work)
    return this.#queue.run(address, checked, signal).catch((error: unknown) => {
      throw error instanceof GitFailed ? unavailable(repository.path, error) : error
    })
  }
}

async function readCommit(path: string, sha: string, signal: AbortSignal): Promise<CommitDetails> {
  const parser = new RecordParser({ fields: 4, fieldLength: FIELD_LENGTH, outputLength: OUTPUT_LENGTH })
  const args = ['log', '-z', '--no-walk', '--no-show-signature', `--format=${FORMAT}`, sha, '--']
  const failure = await runGit(path, args, parser, TIMEOUT, signal)
  const [record] = parser.records
  if (!record) throw failure ?? new GitFailed('it printed nothing', 0)
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
