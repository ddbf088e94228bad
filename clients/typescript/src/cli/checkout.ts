import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

const BRANCHES = 'refs/heads/'
const TAGS = 'refs/tags/'

/** Returns OWNER/NAME from the remote `origin` of the checkout around a folder. */
export function originOf(cwd: string): string | undefined {
  return slugOf(git(cwd, 'config', '--get', 'remote.origin.url') ?? '')
}

/**
 * Returns the full id of the commit that a branch, a tag, `HEAD` or a short id names in the
 * checkout around a folder.
 */
export function resolveCommit(cwd: string, name: string): string | undefined {
  // No revision begins with a dash. Before git 2.30, rev-parse has no --end-of-options.
  if (name.startsWith('-')) return undefined
  return git(cwd, 'rev-parse', '--verify', '--quiet', `${name}^{commit}`)
}

/** Returns whether a folder is in a git checkout. */
export function isCheckout(cwd: string): boolean {
  return git(cwd, 'rev-parse', '--git-dir') !== undefined
}

/**
 * Returns a line for each file that differs from HEAD, also those that git neither tracks nor
 * ignores; undefined if git fails.
 */
export function changedFiles(cwd: string): string | undefined {
  const options = ['--porcelain', '--untracked-files=normal']
  return git(cwd, '-c', 'core.fsmonitor=false', '--no-optional-locks', 'status', ...options)
}

/**
 * Returns OWNER/NAME from the address of a repository: `https://host/acme/rocket.git`, `ssh://…`,
 * `git@host:acme/rocket`, or PROJECT/NAME from
 * `https://dev.azure.com/organization/PROJECT/_git/NAME`.
 */
export function slugOf(address: string): string | undefined {
  const isUrl = /^(?:https?|ssh|git):\/\//i.test(address)
  // One letter is a drive of Windows.
  const [host] = /^[^/:\\]{2,}:(?!\/\/)/.exec(address) ?? []
  const path = isUrl ? URL.canParse(address) && new URL(address).pathname : host && address.slice(host.length)
  const segments = (path || '').split('/').filter(Boolean)
  const [owner, name, ...more] = segments.at(-2) === '_git' ? [segments.at(-3), segments.at(-1)] : segments
  if (!owner || !name || more.length > 0) return undefined
  return `${owner}/${name.replace(/\.git$/, '')}`
}

/**
 * Returns the commit of any branch in the repository that a hook runs in; empty if it has none;
 * undefined if git fails.
 */
export function anyTip(): string | undefined {
  return git('.', 'for-each-ref', '--count=1', '--format=%(objectname)', 'refs/heads')
}

/**
 * Returns the full names of the branches and tags that an update of a ref changes, in the repository
 * that a hook runs in; undefined if git fails. git follows symbolic refs, so these are the ref at the
 * end and all that lead to it.
 */
export function changedRefs(ref: string): string[] | undefined {
  const listed = git('.', 'for-each-ref', '--format=%(if)%(symref)%(then)%(refname)%(end)', BRANCHES, TAGS)
  if (listed === undefined) return undefined
  const endOf = (name: string) => git('.', 'symbolic-ref', '--quiet', name) ?? name
  const end = endOf(ref)
  // git does not list those that lead nowhere.
  const files = readdirSync('refs', { recursive: true, encoding: 'utf8' }).map(
    (name) => `refs/${name.replaceAll('\\', '/')}`,
  )
  const names = new Set([end, ...listed.split('\n'), ...files.filter(isSymbolic)])
  return [...names].filter((name) => hasRules(name) && endOf(name) === end)
}

/** Returns what the server calls a ref: a branch by its name, a tag by its full name. */
export function ruledName(ref: string): string {
  return ref.startsWith(BRANCHES) ? ref.slice(BRANCHES.length) : ref
}

/** Returns whether a ref is a tag, by its full name. */
export function isTag(ref: string): boolean {
  return ref.startsWith(TAGS)
}

function hasRules(ref: string): boolean {
  return ref.startsWith(BRANCHES) || isTag(ref)
}

function isSymbolic(file: string): boolean {
  try {
    return hasRules(file) && readFileSync(file, 'latin1').startsWith('ref:')
  } catch {
    return false
  }
}

/**
 * Returns whether a commit is an ancestor of another one, in the repository that a hook runs in.
 */
export function isAncestor(old: string, tip: string): boolean {
  return git('.', 'merge-base', old, tip) === old
}

/**
 * Returns what git prints; undefined if it fails. Checkouts in containers often belong to another
 * user. Of what their configuration names, git runs only filters of files, which get no token.
 * Replacement refs, which can be pushed, would change who is whose ancestor.
 *
 * The variables of git count, as for any git that the same job or hook starts: those of a hook say
 * where the repository is, and where the objects of a push are until it is accepted.
 */
function git(cwd: string, ...args: string[]): string | undefined {
  const { COMMIT_STATUS_TOKEN: _token, ...withoutToken } = process.env
  try {
    const output = execFileSync('git', ['--no-replace-objects', '-c', 'safe.directory=*', ...args], {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 5_000,
      // What a partial clone has left out is not fetched.
      env: { ...withoutToken, GIT_NO_LAZY_FETCH: '1' },
    })
    return output.trim()
  } catch {
    return undefined
  }
}
