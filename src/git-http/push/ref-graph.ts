import { GitFailed } from '../../git/errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { symbolicFiles } from '../../git/refs/head.ts'
import { readGit, runGit } from '../../git/run-git.ts'

/** Milliseconds. Signals stop git earlier. */
const TIMEOUT = 24 * 60 * 60 * 1000
const NOT_AN_ANCESTOR = 1
const MAX_DEPTH = 10
/** Refs that git is asked for by name: how many, and the bytes of their names. */
const MAX_PATTERNS = 100
const MAX_LENGTH = 100_000

/** Returns which ids are those of commits in the repository. */
export async function findCommits(
  repository: OpenedRepository,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const format = '--batch-check=%(objecttype) %(objectname)'
  const lines = await readGit(repository, ['cat-file', format], { signal, input: ids.join('\n') })
  return new Set(lines.match(/(?<=^commit ).+$/gm))
}

/**
 * Returns whether `old` is an ancestor of `id` or the same commit.
 *
 * @throws GitFailed if one of them is not a commit
 */
export async function isAncestor(
  repository: OpenedRepository,
  old: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await readGit(repository, ['merge-base', '--is-ancestor', old, id], { timeout: TIMEOUT, signal })
    return true
  } catch (error) {
    if (error instanceof GitFailed && error.code === NOT_AN_ANCESTOR) return false
    throw error
  }
}

/**
 * Returns the symbolic refs, each with the ref at the end of its chain, which need not exist. Names
 * are decoded as Latin-1, because they may not be UTF-8.
 */
export async function readSymbolicRefs(
  repository: OpenedRepository,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const listedRefs = new Set<string>()
  const symbolic = new Map<string, string>()
  const take = (ref: string, target: string) => {
    listedRefs.add(ref)
    if (target !== '') symbolic.set(ref, target)
  }
  await eachRef(repository, 'symref', [], take, signal)
  // git lists none whose target does not exist; a push to such a ref creates the target.
  for await (const [ref, target] of symbolicFiles(repository.path, (name) => listedRefs.has(name)))
    symbolic.set(ref, target)
  // git follows shorter chains than this.
  for (let depth = 0; depth < MAX_DEPTH; depth++)
    for (const [ref, target] of symbolic) symbolic.set(ref, symbolic.get(target) ?? target)
  return symbolic
}

/** Object ids by the names of refs, decoded as Latin-1. */
export type RefIds = ReadonlyMap<string, string>

/**
 * Returns the object ids of refs by name, without those that do not exist. Names are not patterns:
 * see `readCommands`.
 */
export async function readRefIds(
  repository: OpenedRepository,
  refs: readonly { ref: string }[],
  signal: AbortSignal,
): Promise<RefIds> {
  const names = new Set(refs.map(({ ref }) => ref))
  const ids = new Map<string, string>()
  if (names.size === 0) return ids
  const patterns = [...names].map((name) => Buffer.from(name, 'latin1').toString())
  // Without patterns git lists all refs. Names that are not UTF-8 cannot be arguments.
  const text = patterns.length > MAX_PATTERNS ? null : patterns.join()
  const isAsked = text !== null && text.length <= MAX_LENGTH && !text.includes('\ufffd')
  const take = (ref: string, id: string) => {
    if (names.has(ref)) ids.set(ref, id)
  }
  await eachRef(repository, 'objectname', isAsked ? patterns : [], take, signal)
  return ids
}

/** Calls `take` with the name of each ref that a pattern matches, and one of its fields. */
async function eachRef(
  repository: OpenedRepository,
  field: string,
  patterns: readonly string[],
  take: (ref: string, value: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let rest = ''
  const push = (chunk: Buffer) => {
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [ref = '', value = ''] = line.split(' ')
      take(ref, value)
    }
  }
  const args = ['for-each-ref', `--format=%(refname) %(${field})`, '--', ...patterns]
  const failure = await runGit(repository, args, { push }, TIMEOUT, signal)
  if (failure) throw failure
}
