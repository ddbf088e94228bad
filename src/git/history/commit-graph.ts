import { RepositoryUnavailable } from '../errors.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { runGit } from '../run-git.ts'

/** How much of a history is read. */
interface GraphLimits {
  /** Commits in memory. Those that come after their children first are kept. */
  commits: number
  /** Of git's output: an id with a space or newline for each commit, and for each of its parents. */
  bytes: number
  /** Milliseconds. */
  timeout: number
}

/** What a commit contains, as far as it was looked for. */
interface Content {
  from: number
  /** For each commit, from this one on: 1 if it is contained. */
  isIn: Uint8Array
  /** The number of the commit whose parents come next. */
  next: number
}

/**
 * A part of a history: the commits that one of them contains and another one does not. What lies
 * between two commits of a part is in it too, so a part that was cut off answers as the whole would.
 */
export class CommitGraph {
  /** Full ids; a parent comes after all of its children. */
  readonly #ids: readonly string[]
  readonly #numbers: ReadonlyMap<string, number>
  /** Numbers of the parents that are in this part; -1 for others. */
  readonly #parents: readonly (readonly number[])[]
  /** Whether not all commits of the part were read. */
  readonly isCut: boolean
  #content: Content | undefined

  private constructor(commits: readonly (readonly string[])[], isCut: boolean) {
    this.isCut = isCut
    this.#ids = commits.map(([id = '']) => id)
    this.#numbers = new Map(this.#ids.map((id, number) => [id, number]))
    this.#parents = commits.map(([, ...parents]) => parents.map((id) => this.#numbers.get(id) ?? -1))
  }

  /**
   * Reads a part of a history.
   *
   * @param first full id of the commit that contains all others
   * @param last full id of the commit whose history is left out; the commit itself is not, unless the
   * part is cut off
   * @throws RepositoryUnavailable, GitTimeout, the signal's reason
   */
  static async read(
    repository: OpenedRepository,
    first: string,
    last: string,
    { commits: count, bytes, timeout }: GraphLimits,
    signal: AbortSignal,
  ): Promise<CommitGraph> {
    let text = ''
    const output = {
      push(chunk: Buffer) {
        text += chunk.toString('latin1', 0, bytes - text.length)
      },
      get isFull() {
        return text.length >= bytes
      },
    }
    const args = ['rev-list', '--topo-order', '--parents', `--max-count=${count}`, first, `^${last}`, '--']
    const failure = await runGit(repository, args, output, timeout, signal)
    if (failure)
      throw new RepositoryUnavailable(
        `git could not list the commits of ${repository.path}: ${failure.message}`,
      )
    // The last line is empty, or was cut off.
    const lines = text.split('\n').slice(0, -1)
    const commits = lines.map((line) => line.split(' '))
    const isCut = output.isFull || commits.length === count
    if (!isCut) commits.push([last])
    return new CommitGraph(commits, isCut)
  }

  has(id: string): boolean {
    return this.#numbers.has(id)
  }

  /**
   * Returns a commit and its first parents, as long as they contain another commit, without that
   * one; null if the commit is the other one or does not contain it.
   *
   * @param count maximum number of commits
   */
  firstParentsTo(from: string, to: string, count: number): string[] | null {
    const start = this.#numbers.get(from)
    const end = this.#numbers.get(to)
    if (start === undefined || end === undefined || start >= end || !this.#contains(start, end)) return null
    // Of the commits between the two, whether they contain the other one.
    const contains = new Uint8Array(end - start + 1)
    contains[end - start] = 1
    for (let number = end - 1; number >= start; number--)
      if (this.#parents[number]?.some((parent) => contains[parent - start] === 1))
        contains[number - start] = 1

    const ids: string[] = []
    let number = start
    while (number !== end && contains[number - start] === 1 && ids.length < count) {
      ids.push(this.#ids[number] ?? '')
      number = this.#parents[number]?.[0] ?? -1
    }
    return ids
  }

  /** Returns whether a commit contains a later one. Each is looked at once, as long as `from` is the same. */
  #contains(from: number, to: number): boolean {
    if (this.#content?.from !== from) {
      const isIn = new Uint8Array(this.#ids.length - from)
      isIn[0] = 1
      this.#content = { from, isIn, next: from }
    }
    const { isIn } = this.#content
    for (; this.#content.next < to; this.#content.next++)
      if (isIn[this.#content.next - from] === 1)
        for (const parent of this.#parents[this.#content.next] ?? [])
          if (parent !== -1) isIn[parent - from] = 1
    return isIn[to - from] === 1
  }
}
