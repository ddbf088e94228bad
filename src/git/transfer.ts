import { execFile } from 'node:child_process'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { syncPath, syncTree, writeDurably } from '../util/durable.ts'
import { shellQuote } from '../util/shell-quote.ts'
import { walk } from '../util/walk.ts'
import { FIXED_SETTINGS, gitEnvironment } from './environment.ts'
import { ANY_WORK_TREE, decodeLatin1, GitFailed } from './run-git.ts'

/** The refs of a repository, hidden ones too. Names are decoded as Latin-1, because they may not be UTF-8. */
export interface RefList {
  /** `ID NAME`, in the order of the names; HEAD too if it is detached. */
  refs: string[]
  /** `NAME TARGET` of HEAD and of the other symbolic refs. The target need not exist. */
  symbolic: string[]
}

/** Git drops the settings in the environment for the `upload-pack` of a path, and with them all that is fixed. */
const UPLOAD_PACK = [
  'git',
  ...Object.entries({ ...FIXED_SETTINGS, 'uploadpack.allowAnySHA1InWant': 'true' }).map(
    ([key, value]) => `-c ${shellQuote(`${key}=${value}`)}`,
  ),
  'upload-pack --strict',
].join(' ')
const FETCH_SETTINGS = {
  'protocol.version': '2',
  // What the server has served is backed up, whatever rules have been added to git's checks since.
  'fetch.fsckObjects': 'false',
  // Objects arrive as one pack, of which git sees nothing until it is complete.
  'fetch.unpackLimit': '1',
  'gc.auto': '0',
}
const MAX_STDERR = 2_000
/** What git leaves behind when it is killed. */
const LEFTOVER = /^(?:\.tmp-|tmp_)|\.(?:lock|keep)$/

/** Lists the refs of a repository. @throws GitFailed, also if git ignores a ref that it cannot read */
export async function listRefs(path: string): Promise<RefList> {
  const listed = await run(path, ['for-each-ref', '--format=%(objectname) %(refname) %(symref)'])
  if (listed.stderr) throw new GitFailed(listed.stderr.trim().slice(-MAX_STDERR), null)
  const refs: string[] = []
  const symbolic = new Map<string, string>()
  for (const line of listed.stdout.split('\n').slice(0, -1)) {
    const [id, name = '', target] = line.split(' ')
    if (target) symbolic.set(name, target)
    else refs.push(`${id} ${name}`)
  }
  const head = await run(path, ['symbolic-ref', '--quiet', 'HEAD']).catch(() => null)
  if (head) symbolic.set('HEAD', head.stdout.trim())
  else refs.push(`${(await run(path, ['rev-parse', '--verify', 'HEAD'])).stdout.trim()} HEAD`)
  await readSymbolicFiles(path, new Set(refs.map((line) => line.slice(line.indexOf(' ') + 1))), symbolic)
  return { refs, symbolic: [...symbolic].map(([name, target]) => `${name} ${target}`).sort() }
}

/** Returns whether two lists are equal. */
export function isSameRefs(one: RefList, other: RefList): boolean {
  return `${one.refs}` === `${other.refs}` && `${one.symbolic}` === `${other.symbolic}`
}

/** Adds what git does not list: symbolic refs that dangle, and the next link where one leads to another. */
async function readSymbolicFiles(
  path: string,
  plain: ReadonlySet<string>,
  symbolic: Map<string, string>,
): Promise<void> {
  const files = [join(path, 'HEAD')]
  for await (const { path: file, isFolder } of walk(join(path, 'refs'))) if (!isFolder) files.push(file)
  for (const file of files) {
    const name = Buffer.from(relative(path, file)).toString('latin1')
    if (plain.has(name) || name.endsWith('.lock')) continue
    const content = await readFile(file, 'latin1').catch(() => '')
    const [, target] = /^ref: *(\S+)/.exec(content) ?? []
    // With the format `reftable`, git has placeholders in these places.
    if (target && target !== 'refs/heads/.invalid') symbolic.set(name, target)
  }
}

/** Returns the ids of a list, each once. */
export function idsOf({ refs }: RefList): string[] {
  return [...new Set(refs.map((line) => line.slice(0, line.indexOf(' '))))]
}

/** Returns those of `commits` that exist and that none of `ids` reaches, with their ancestors up to what `ids` reach. */
export async function unreachedCommits(
  path: string,
  commits: readonly string[],
  ids: readonly string[],
): Promise<string[]> {
  if (commits.length === 0) return []
  const input = [...commits, ...ids.map((id) => `^${id}`)].join('\n')
  const { stdout } = await run(path, ['rev-list', '--ignore-missing', '--stdin'], { input })
  return stdout.split('\n').slice(0, -1)
}

/**
 * Copies objects, and all that they refer to, into another repository, which must have all that its own refs reach. Then makes
 * sure that everything is there, and on disk.
 *
 * @throws GitFailed
 */
export async function fetchObjects(
  from: string,
  to: string,
  ids: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  if (ids.length === 0) return
  const input = ids.join('\n')
  const options = ['--no-tags', '--no-write-fetch-head', '--no-auto-maintenance', '--quiet', '--stdin']
  const args = ['fetch', ...options, `--upload-pack=${UPLOAD_PACK}`, from]
  await run(to, args, { input, config: FETCH_SETTINGS, signal })
  await run(to, ['rev-list', '--objects', '--quiet', '--stdin'], { input, signal })
  await syncPath(join(to, 'objects', 'pack'))
}

/**
 * Replaces the refs of a repository that nobody else uses by one for each id, from which the next fetch knows what is there. Then
 * combines small packs, with all that they contain.
 */
export async function writeTips(path: string, ids: readonly string[]): Promise<void> {
  const lines = [...ids].sort().map((id) => `${id} refs/tips/${id}\n`)
  await writeDurably(join(path, 'packed-refs'), lines.join(''))
  await run(path, ['repack', '--geometric=2', '-d', '-n', '--quiet'])
  await syncPath(join(path, 'objects', 'pack'))
}

/** Gives a new repository its refs, and waits until all of it is on disk. */
export async function writeRefs(path: string, { refs, symbolic }: RefList): Promise<void> {
  const packed = refs.filter((line) => !line.endsWith(' HEAD')).map((line) => `${line}\n`)
  await writeFile(join(path, 'packed-refs'), packed.join(''), 'latin1')
  const detached = refs.find((line) => line.endsWith(' HEAD'))
  if (detached) await run(path, ['update-ref', '--no-deref', 'HEAD', detached.slice(0, -' HEAD'.length)])
  for (const line of symbolic) await run(path, ['symbolic-ref', ...decodeLatin1(line).split(' ')])
  await syncTree(path)
}

/** Removes what killed processes have left in a repository that nobody else uses. */
export async function removeLeftovers(path: string): Promise<void> {
  for (const folder of [path, join(path, 'objects', 'pack')]) {
    for (const name of await readdir(folder)) if (LEFTOVER.test(name)) await rm(join(folder, name))
  }
}

/** Runs git, which may take as long as it needs. @throws GitFailed; the reason of `signal` */
function run(
  path: string,
  args: readonly string[],
  options: { input?: string; config?: Record<string, string>; signal?: AbortSignal | undefined } = {},
): Promise<{ stdout: string; stderr: string }> {
  const { input = '', config, signal } = options
  return new Promise((resolve, reject) => {
    // Without a limit of memory: the objects are already stored.
    const env = {
      ...gitEnvironment({ ...config, 'core.logAllRefUpdates': 'false' }, '0'),
      GIT_ALLOW_PROTOCOL: 'file',
    }
    const child = execFile(
      'git',
      [`--git-dir=${path}`, ANY_WORK_TREE, ...args],
      { cwd: '/', env, encoding: 'latin1', maxBuffer: Number.POSITIVE_INFINITY, signal },
      (error, stdout, stderr) => {
        if (!error) resolve({ stdout, stderr })
        else if (signal?.aborted) reject(signal.reason)
        else reject(new GitFailed(stderr.trim().slice(-MAX_STDERR) || error.message, null))
      },
    )
    // If git ends early, its exit code tells why.
    child.stdin?.on('error', () => {}).end(input, 'latin1')
  })
}
