import { BRANCHES } from '../../domain/branch-rules.ts'
import { isFullId } from '../../domain/commit-id.ts'
import { GitFailed, RepositoryUnavailable } from '../errors.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { type ListLimits, RecordParser, readDate } from '../record-parser.ts'
import { decodeLatin1, readGit, runGit } from '../run-git.ts'

/** A branch, or a tag of a commit. */
export interface Ref {
  kind: 'branch' | 'tag'
  /** What follows `refs/heads/` or `refs/tags/`. */
  name: string
  /** The commit. */
  sha: string
  /** Date of the commit or, if later, of the tag, ISO 8601 in UTC; null if it has no valid date. */
  date: string | null
}

/** The branches and tags of a repository. */
export interface Refs {
  /** The branch that HEAD names, which need not exist; null if HEAD is a commit. */
  defaultBranch: string | null
  /** The commit of HEAD; null if there is none. */
  head: string | null
  /** The newest ones first. */
  branches: readonly Ref[]
  tags: readonly Ref[]
  /** Whether there are more refs than these. */
  more: boolean
}

const TAGS = 'refs/tags/'
const FORMAT = [
  ...['%(objectname)', '%(objecttype)', '%(*objectname)', '%(*objecttype)'],
  ...['%(creatordate:iso-strict)', '%(HEAD)', '%(refname)'],
]
  .map((field) => `${field}%00`)
  .join('')
const LIMITS = { fields: 7, fieldLength: 1024, outputLength: 16 * 1024 * 1024 }

/** Reads the newest branches and tags, without those of other objects and with overlong names. */
export async function readRefs(
  repository: OpenedRepository,
  limits: ListLimits,
  signal?: AbortSignal,
): Promise<Refs> {
  const args = ['--sort=-creatordate', `--count=${limits.count + 1}`, BRANCHES, TAGS]
  const parser = await listRefs(repository, args, limits.timeout, signal)
  const records = parser.records.slice(0, limits.count)
  const refs = records.map(toRef).filter((ref) => ref !== null)
  const current = records.find((fields) => fields[5] === '*')
  const head = current && toRef(current)
  return {
    ...(head ? { defaultBranch: head.name, head: head.sha } : await readHeadOf(repository, limits, signal)),
    branches: refs.filter(({ kind }) => kind === 'branch'),
    tags: refs.filter(({ kind }) => kind === 'tag'),
    more: parser.isFull || parser.records.length > limits.count,
  }
}

/**
 * Finds a branch, or else a tag, of exactly this name.
 *
 * @param name anything a user may send: it is never taken for revision syntax, a pattern or an
 * option
 */
export async function readRef(
  repository: OpenedRepository,
  name: string,
  timeout: number,
  signal?: AbortSignal,
): Promise<Ref | null> {
  if (!isRefName(name)) return null
  const names = [`${BRANCHES}${name}`, `${TAGS}${name}`]
  // Also lists refs in a folder of this name.
  const { records } = await listRefs(repository, ['--count=1000', ...names], timeout, signal)
  for (const refname of names) {
    const fields = records.find((record) => record[6] === refname)
    if (fields === undefined) continue
    const [object = '', , ...others] = fields
    // git before 2.45 does not follow a tag of a tag here.
    const peel = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${object.trim()}^{commit}`]
    const ref =
      toRef(fields) ?? toRef([await readLine(repository, peel, timeout, signal), 'commit', ...others])
    if (ref) return ref
  }
  return null
}

/** Returns whether a branch or tag may have this name: git-check-ref-format(1). */
export function isRefName(name: string): boolean {
  return (
    name !== '' &&
    name !== '@' &&
    Buffer.byteLength(name) < LIMITS.fieldLength - TAGS.length &&
    !/[\0-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^[/-]|\/$|\.$/.test(name) &&
    name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
  )
}

/** Returns git's records of refs. */
async function listRefs(
  repository: OpenedRepository,
  args: readonly string[],
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<RecordParser> {
  const parser = new RecordParser(LIMITS)
  const all = ['for-each-ref', `--format=${FORMAT}`, ...args]
  const failure = await runGit(repository, all, parser, timeout, signal)
  if (failure)
    throw new RepositoryUnavailable(`git could not list the refs of ${repository.path}: ${failure.message}`)
  return parser
}

/** Returns where HEAD is if that is no branch with commits among those that were read. */
async function readHeadOf(
  repository: OpenedRepository,
  { timeout }: ListLimits,
  signal: AbortSignal | undefined,
): Promise<Pick<Refs, 'defaultBranch' | 'head'>> {
  const name = await readLine(repository, ['symbolic-ref', '--quiet', 'HEAD'], timeout, signal)
  const commit = ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}']
  const sha = await readLine(repository, commit, timeout, signal)
  return {
    defaultBranch: name.startsWith(BRANCHES) ? name.slice(BRANCHES.length) : null,
    head: isFullId(sha) ? sha : null,
  }
}

/** Returns the line that git prints, or an empty one if git fails. */
async function readLine(
  repository: OpenedRepository,
  args: readonly string[],
  timeout: number,
  signal?: AbortSignal,
): Promise<string> {
  try {
    return decodeLatin1(await readGit(repository, args, { timeout, signal })).trim()
  } catch (error) {
    if (error instanceof GitFailed) return ''
    throw error
  }
}

function toRef(fields: string[]): Ref | null {
  const [sha = '', type = '', peeled = '', peeledType = '', date = '', , refname = ''] = fields
  const kind = refname.startsWith(BRANCHES) ? 'branch' : 'tag'
  // git ends each record by a newline, which is the start of the next one here.
  const commit = type === 'commit' ? sha.trim() : peeledType === 'commit' ? peeled : ''
  if (!isFullId(commit) || Buffer.byteLength(refname) >= LIMITS.fieldLength) return null
  const name = refname.slice((kind === 'branch' ? BRANCHES : TAGS).length)
  return { kind, name, sha: commit, date: readDate(date) }
}
