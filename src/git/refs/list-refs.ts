import type { OpenedRepository } from '../opened-repository.ts'
import { runGit } from '../run-git.ts'

/** Limits of a git process. */
export interface RunLimits {
  /** Milliseconds. Default: a day. */
  timeout?: number
  signal?: AbortSignal | undefined
}

const TIMEOUT = 24 * 60 * 60 * 1000

/** Fields of a ref: git-for-each-ref(1). None of those that are used contains white space. */
type Field =
  | 'refname'
  | 'symref'
  | 'objectname'
  | 'objecttype'
  | '*objectname'
  | '*objecttype'
  | 'creatordate:iso-strict'

export interface ListOptions extends RunLimits {
  /** Further arguments of git: an order, a number of refs, names and patterns. */
  args?: readonly string[]
  /** Bytes after which git is stopped. Default: no limit. */
  maxBytes?: number
}

/**
 * Lists the refs of a repository, hidden ones too. Of a chain of symbolic refs, git tells only the
 * end, and it lists none that leads nowhere: see `addSymbolicFiles`.
 *
 * @param take receives the fields of each ref, decoded as Latin-1, because names may not be UTF-8
 * @returns whether the list is cut at `maxBytes`, and what git wrote to standard error, for example
 * about refs that it cannot read and leaves out
 * @throws GitFailed, GitTimeout; the signal's reason
 */
export async function listRefs(
  repository: OpenedRepository,
  fields: readonly Field[],
  { args = [], maxBytes = Number.POSITIVE_INFINITY, timeout = TIMEOUT, signal }: ListOptions,
  take: (values: string[]) => void,
): Promise<{ isCut: boolean; warnings: string }> {
  let [rest, length, warnings] = ['', 0, '']
  const output = {
    push(chunk: Buffer) {
      length += chunk.length
      const lines = (rest + chunk.toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) take(line.split(' '))
    },
    get isFull() {
      return length >= maxBytes
    },
    warn(text: string) {
      warnings = text
    },
  }
  const format = fields.map((field) => `%(${field})`).join(' ')
  const failure = await runGit(
    repository,
    ['for-each-ref', `--format=${format}`, ...args],
    output,
    timeout,
    signal,
  )
  if (failure) throw failure
  return { isCut: output.isFull, warnings }
}
