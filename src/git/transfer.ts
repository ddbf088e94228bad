import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isDeepStrictEqual } from 'node:util'
import { syncPath, writeDurably } from '../util/durable.ts'
import { insteadOf } from '../util/expected-errors.ts'
import { shellQuote } from '../util/shell-quote.ts'
import { FIXED_SETTINGS, gitEnvironment } from './environment.ts'
import { GitFailed, RepositoryUnavailable, unavailable } from './errors.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from './opened-repository.ts'
import { readHeadRefs } from './refs/head.ts'
import { listRefs } from './refs/list-refs.ts'
import { addSymbolicFiles } from './refs/symbolic-refs.ts'
import { decodeLatin1, startGit } from './run-git.ts'

/**
 * The refs of a repository, hidden ones too. Names may not be UTF-8: they are decoded as Latin-1.
 */
export interface RefList {
  /** `ID NAME`, in the order of the names; HEAD too if it is detached. */
  refs: string[]
  /** `NAME TARGET` of HEAD and of the other symbolic refs. The target need not exist. */
  symbolic: string[]
}

/** For the `upload-pack` of a path git drops the environment's settings, and all that is fixed. */
const UPLOAD_PACK = [
  'git',
  ...Object.entries(FIXED_SETTINGS).map(([key, value]) => `-c ${shellQuote(`${key}=${value}`)}`),
  'upload-pack --strict',
].join(' ')
const SETTINGS = {
  'protocol.version': '2',
  // What the server has served is backed up, whatever rules have been added to git's checks since.
  'fetch.fsckObjects': 'false',
  // Objects arrive as one pack, of which git sees nothing until it is complete.
  'fetch.unpackLimit': '1',
  'core.logAllRefUpdates': 'false',
}

/**
 * Reads the refs of a repository.
 *
 * @throws GitFailed, also if git ignores a ref that it cannot read
 */
export async function readRefList(repository: OpenedRepository): Promise<RefList> {
  const refs: string[] = []
  const targets = new Map<string, string>()
  const { warnings } = await listRefs(
    repository,
    ['objectname', 'refname', 'symref'],
    {},
    ([id, ref = '', target = '']) => {
      targets.set(ref, target)
      if (target === '') refs.push(`${id} ${ref}`)
    },
  )
  if (warnings) throw new GitFailed(warnings, null)
  await addSymbolicFiles(repository.path, targets)

  const [headRef] = await readHeadRefs(repository)
  if (headRef !== undefined) targets.set('HEAD', headRef)
  else refs.push(`${(await runUnlimited(repository, ['rev-parse', '--verify', 'HEAD'])).stdout.trim()} HEAD`)
  const symbolic = [...targets].flatMap(([name, target]) => (target === '' ? [] : [`${name} ${target}`]))
  return { refs, symbolic: symbolic.sort() }
}

/** Returns whether a repository has exactly these refs. False if they cannot be read. */
export async function hasRefs(repository: RepositoryFiles, { refs, symbolic }: RefList): Promise<boolean> {
  try {
    return isDeepStrictEqual(await readRefList(await openRepository(repository)), { refs, symbolic })
  } catch (error) {
    if (unavailable(repository.path, error) instanceof RepositoryUnavailable) return false
    throw error
  }
}

/** Returns the ids of a list, each once. */
export function idsOf({ refs }: RefList): string[] {
  return [...new Set(refs.map((line) => line.slice(0, line.indexOf(' '))))]
}

/**
 * Returns those of `commits`, and of their ancestors, that exist and that none of `ids` reaches.
 */
export async function unreachedCommits(
  repository: OpenedRepository,
  commits: readonly string[],
  ids: readonly string[],
): Promise<string[]> {
  const input = [...commits, ...ids.map((id) => `^${id}`)].join('\n')
  const { stdout } = await runUnlimited(repository, ['rev-list', '--ignore-missing', '--stdin'], input)
  return stdout.split('\n').slice(0, -1)
}

/**
 * Copies objects, and all that they refer to, into another repository, which must have all that its
 * own refs reach. Then makes sure that everything is there, except for what `known` refer to.
 */
export async function fetchObjects(
  from: OpenedRepository,
  to: OpenedRepository,
  ids: readonly string[],
  known: readonly string[] = [],
): Promise<void> {
  if (ids.length === 0) return
  const input = ids.join('\n')
  const options = ['--no-tags', '--no-write-fetch-head', '--no-auto-maintenance', '--quiet', '--stdin']
  await runUnlimited(to, ['fetch', ...options, `--upload-pack=${UPLOAD_PACK}`, from.path], input)
  await checkConnected(to, ids, known)
}

/**
 * Replaces the refs of a repository that nobody else uses by one for each id, from which a fetch
 * knows what is there.
 */
export async function writeTips({ path }: OpenedRepository, ids: readonly string[]): Promise<void> {
  await syncPath(join(path, 'objects', 'pack'))
  const lines = [...new Set(ids)].sort().map((id) => `${id} refs/tips/${id}\n`)
  await writeDurably(join(path, 'packed-refs'), lines.join(''))
}

/** Combines small packs of a repository, with all that they contain. */
export async function combinePacks(repository: OpenedRepository): Promise<void> {
  await runUnlimited(repository, ['repack', '--geometric=2', '-d', '-n', '--quiet'])
}

/** Writes the index of a pack. @throws GitFailed */
export async function indexPack(repository: OpenedRepository, pack: string): Promise<void> {
  await runUnlimited(repository, ['index-pack', pack])
}

/**
 * Returns whether a repository has all that `ids` refer to, except for what `known` refer to, which
 * is not followed.
 */
export function hasObjects(
  repository: OpenedRepository,
  ids: readonly string[],
  known: readonly string[] = [],
): Promise<boolean> {
  return checkConnected(repository, ids, known).then(() => true, insteadOf(GitFailed, false))
}

/**
 * Returns whether a repository has all that `ids` refer to, except for what `known` refer to, and
 * every object of it can be read.
 */
export async function isReadable(
  repository: OpenedRepository,
  ids: readonly string[],
  known: readonly string[],
): Promise<boolean> {
  const options = ['--revs', '--stdout', '--no-reuse-object', '--window=0', '--quiet']
  const { child, ended } = startGit(repository, ['pack-objects', ...options], {
    env: gitEnvironment(SETTINGS, '0'),
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  child.stdin?.end([...ids, ...known.map((id) => `^${id}`)].join('\n'))
  return (await ended).code === 0
}

/** Returns whether a repository has all that its refs lead to. */
export function isComplete(repository: OpenedRepository): Promise<boolean> {
  const walk = runUnlimited(repository, ['rev-list', '--objects', '--quiet', '--all'])
  return walk.then(() => true, insteadOf(GitFailed, false))
}

/** @throws GitFailed */
async function checkConnected(
  repository: OpenedRepository,
  ids: readonly string[],
  known: readonly string[],
): Promise<void> {
  const input = [...ids, ...known.map((id) => `^${id}`)].join('\n')
  await runUnlimited(repository, ['rev-list', '--objects', '--quiet', '--stdin'], input)
}

/**
 * Adds all that `ids` refer to, from wherever it can be read: from the repository itself or from
 * other folders of objects. Every object is read, so one that is damaged in a place is taken from
 * another.
 *
 * @returns whether the repository has all of it now
 */
export async function gatherObjects(
  to: OpenedRepository,
  ids: readonly string[],
  known: readonly string[],
  folders: readonly string[],
): Promise<boolean> {
  if (await hasObjects(to, ids, known)) return true
  const env = gitEnvironment(SETTINGS, '0')
  // git reads a quoted path as a string of C.
  const alternates = folders.map((folder) => JSON.stringify(folder)).join(':')
  const source = startGit(to, ['pack-objects', '--revs', '--stdout', '--no-reuse-object', '--quiet'], {
    env: { ...env, GIT_ALTERNATE_OBJECT_DIRECTORIES: alternates },
    stdio: 'pipe',
  })
  const target = startGit(to, ['index-pack', '--stdin'], { env, stdio: 'pipe' })
  source.child.stdin?.end([...ids, ...known.map((id) => `^${id}`)].join('\n'))
  target.child.stdout?.resume()
  // However both end: what matters is whether everything is there.
  if (source.child.stdout && target.child.stdin)
    await pipeline(source.child.stdout, target.child.stdin).catch(() => {})
  await Promise.all([source.ended, target.ended])
  return hasObjects(to, ids, known)
}

/** Gives a draft of a repository its refs. */
export async function writeRefs(repository: OpenedRepository, { refs, symbolic }: RefList): Promise<void> {
  const { path } = repository
  const head = refs.find((line) => line.endsWith(' HEAD'))
  const packedLines = refs.filter((line) => line !== head).map((line) => `${line}\n`)
  await writeFile(join(path, 'packed-refs'), packedLines.join(''), 'latin1')
  if (head) await writeFile(join(path, 'HEAD'), head.replace(' HEAD', '\n'))
  for (const line of symbolic)
    await runUnlimited(repository, ['symbolic-ref', ...decodeLatin1(line).split(' ')])
}

/** Runs git without limits of time and memory: the objects are already stored. @throws GitFailed */
async function runUnlimited(
  repository: OpenedRepository,
  args: readonly string[],
  input = '',
): Promise<{ stdout: string; stderr: string }> {
  const env = { ...gitEnvironment(SETTINGS, '0'), GIT_ALLOW_PROTOCOL: 'file' }
  const { child, ended } = startGit(repository, args, { env, stdio: 'pipe' })
  child.stdin?.end(input, 'latin1')
  let stdout = ''
  child.stdout?.setEncoding('latin1').on('data', (chunk: string) => {
    stdout += chunk
  })
  const { code, stderr, reason } = await ended
  if (code !== 0) throw new GitFailed(reason, code)
  return { stdout, stderr }
}
