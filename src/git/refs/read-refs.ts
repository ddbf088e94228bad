import { isFullId } from '../../domain/commit-id.ts'
import { BRANCHES, flawOfRefName, TAGS } from '../../domain/ref-names.ts'
import { GitFailed, RepositoryUnavailable } from '../errors.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { type ListLimits, readDate } from '../record-parser.ts'
import { decodeLatin1, readGit } from '../run-git.ts'
import { branchOfRef, readHeadRefs } from './head.ts'
import { listRefs } from './list-refs.ts'

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
  /** The branch to which HEAD leads, which need not exist; null if HEAD is a commit. */
  defaultBranch: string | null
  /** The commit of HEAD; null if there is none. */
  head: string | null
  /** The newest ones first. */
  branches: readonly Ref[]
  tags: readonly Ref[]
  /** Whether there are more refs than these. */
  more: boolean
}

const FIELDS = [
  ...(['objectname', 'objecttype', '*objectname', '*objecttype'] as const),
  ...(['creatordate:iso-strict', 'refname'] as const),
] as const
/** Bytes of the name of a ref. Refs with a longer one are left out. */
const NAME_LENGTH = 1024
const MAX_BYTES = 16 * 1024 * 1024

/** Reads the newest branches and tags, without those of other objects and with overlong names. */
export async function readRefs(
  repository: OpenedRepository,
  limits: ListLimits,
  signal?: AbortSignal,
): Promise<Refs> {
  const args = ['--sort=-creatordate', `--count=${limits.count + 1}`, BRANCHES, TAGS]
  const { records, isCut } = await readRecords(repository, args, limits.timeout, signal)
  const refs = records
    .slice(0, limits.count)
    .map(toRef)
    .filter((ref) => ref !== null)
  return {
    ...(await readHeadOf(repository, refs, limits.timeout, signal)),
    branches: refs.filter(({ kind }) => kind === 'branch'),
    tags: refs.filter(({ kind }) => kind === 'tag'),
    more: isCut || records.length > limits.count,
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
  const { records } = await readRecords(repository, ['--count=1000', ...names], timeout, signal)
  for (const refname of names) {
    const fields = records.find((record) => record.at(-1) === refname)
    if (fields === undefined) continue
    const [object = '', , ...others] = fields
    // git before 2.45 does not follow a tag of a tag here.
    const peel = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${object}^{commit}`]
    const ref =
      toRef(fields) ?? toRef([await readLine(repository, peel, timeout, signal), 'commit', ...others])
    if (ref) return ref
  }
  return null
}

/** Returns whether a branch or tag can have this name: git-check-ref-format(1). */
export function isRefName(name: string): boolean {
  return (
    name !== '' &&
    Buffer.byteLength(name) < NAME_LENGTH - TAGS.length &&
    !name.includes('*') &&
    flawOfRefName(name) === null
  )
}

/** Returns whether git's commands create a branch of this name; a push may create others. */
export function isBranchName(name: string): boolean {
  return isRefName(name) && name !== '@' && !name.startsWith('-')
}

/** Returns git's records of refs. @throws RepositoryUnavailable */
async function readRecords(
  repository: OpenedRepository,
  args: readonly string[],
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<{ records: string[][]; isCut: boolean }> {
  const records: string[][] = []
  try {
    const options = { args, maxBytes: MAX_BYTES, timeout, signal }
    const { isCut } = await listRefs(repository, FIELDS, options, (values) => {
      records.push(values.map(decodeLatin1))
    })
    return { records, isCut }
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    throw new RepositoryUnavailable(`git could not list the refs of ${repository.path}: ${error.message}`)
  }
}

/** Returns where HEAD is. @param refs in which its branch is looked up first */
async function readHeadOf(
  repository: OpenedRepository,
  refs: readonly Ref[],
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<Pick<Refs, 'defaultBranch' | 'head'>> {
  const ref = (await readHeadRefs(repository, { timeout, signal })).at(-1)
  const defaultBranch = branchOfRef(ref)
  const branch = refs.find(({ kind, name }) => kind === 'branch' && name === defaultBranch)
  if (branch) return { defaultBranch, head: branch.sha }
  const sha = await readLine(
    repository,
    ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'],
    timeout,
    signal,
  )
  return { defaultBranch, head: isFullId(sha) ? sha : null }
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
  const [sha = '', type = '', peeled = '', peeledType = '', date = '', refname = ''] = fields
  const kind = refname.startsWith(BRANCHES) ? 'branch' : 'tag'
  const commit = type === 'commit' ? sha : peeledType === 'commit' ? peeled : ''
  if (!isFullId(commit) || Buffer.byteLength(refname) >= NAME_LENGTH) return null
  const name = refname.slice((kind === 'branch' ? BRANCHES : TAGS).length)
  return { kind, name, sha: commit, date: readDate(date) }
}
