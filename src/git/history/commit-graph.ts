import { RepositoryUnavailable } from '../errors.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { runGit } from '../run-git.ts'

/** A part of a history: the commits that one of them contains and another one does not. */
export class CommitGraph {
  /** Full ids; a parent comes after all of its children. */
  readonly #ids: readonly string[]
  readonly #numbers: ReadonlyMap<string, number>
  /** Numbers of the parents that are in this part; -1 for others. */
  readonly #parents: readonly (readonly number[])[]

  private constructor(commits: readonly (readonly string[])[]) {
    this.#ids = commits.map(([id = '']) => id)
    this.#numbers = new Map(this.#ids.map((id, number) => [id, number]))
    this.#parents = commits.map(([, ...parents]) => parents.map((id) => this.#numbers.get(id) ?? -1))
  }

  /**
   * Reads a part of a history.
   *
   * @param first full id of the commit that contains all others
   * @param last full id of the commit whose history is left out; the commit itself is not
   * @param timeout milliseconds
   * @throws RepositoryUnavailable, GitTimeout, the signal's reason
   */
  static async read(
    repository: OpenedRepository,
    first: string,
    last: string,
    timeout: number,
    signal: AbortSignal,
  ): Promise<CommitGraph> {
    const commits: string[][] = []
    let rest = ''
    const push = (chunk: Buffer) => {
      const lines = (rest + chunk.toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) commits.push(line.split(' '))
    }
    const args = ['rev-list', '--topo-order', '--parents', first, `^${last}`, '--']
    const failure = await runGit(repository, args, { push }, timeout, signal)
    if (failure)
      throw new RepositoryUnavailable(
        `git could not list the commits of ${repository.path}: ${failure.message}`,
      )
    return new CommitGraph([...commits, [last]])
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
    const start = this.#numbers.get(from) ?? Number.POSITIVE_INFINITY
    const end = this.#numbers.get(to) ?? -1
    if (start >= end) return null
    // Of the commits from the first one on, whether they contain the other one.
    const contains = new Uint8Array(end - start + 1)
    contains[end - start] = 1
    for (let number = end - 1; number >= start; number--)
      if (this.#parents[number]?.some((parent) => contains[parent - start] === 1))
        contains[number - start] = 1
    if (contains[0] === 0) return null

    const ids: string[] = []
    let number = start
    while (number !== end && contains[number - start] === 1 && ids.length < count) {
      ids.push(this.#ids[number] ?? '')
      number = this.#parents[number]?.[0] ?? -1
    }
    return ids
  }
}
