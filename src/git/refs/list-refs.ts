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

/** Object ids by the names of refs, decoded as Latin-1. */
export type RefIds = ReadonlyMap<string, string>

/** Refs that git is asked for by name: how many, and the bytes of their names. */
const MAX_PATTERNS = 100
const MAX_LENGTH = 100_000

/**
 * Returns the object ids of refs by name, without those that do not exist.
 *
 * @param names without characters that make them patterns
 * @throws GitFailed; the signal's reason
 */
export async function readRefIds(
  repository: OpenedRepository,
  names: readonly string[],
  limits: RunLimits,
): Promise<RefIds> {
  const [wantedNames, ids] = [new Set(names), new Map<string, string>()]
  if (names.length === 0) return ids
  const patterns = names.map((name) => Buffer.from(name, 'latin1').toString())
  // Without patterns git lists all refs. Names that are not UTF-8 cannot be arguments.
  const text = patterns.length > MAX_PATTERNS ? null : patterns.join()
  const isAsked = text !== null && text.length <= MAX_LENGTH && !text.includes('\ufffd')
  const options = { ...limits, args: isAsked ? ['--', ...patterns] : [] }
  await listRefs(repository, ['refname', 'objectname'], options, ([ref = '', id = '']) => {
    if (wantedNames.has(ref)) ids.set(ref, id)
  })
  return ids
}
