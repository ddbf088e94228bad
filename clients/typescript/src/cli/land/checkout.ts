import { checkVersion, type Git, reasonOf } from '../git.ts'
import { UsageError } from '../usage-error.ts'

/** Has `merge-tree --write-tree`. */
const OLDEST_GIT = '2.38'

/**
 * Checks that a commit of this checkout can be merged here, that `origin` is the repository on the
 * server, and that no rewriting of addresses leads pushes elsewhere.
 *
 * @throws UsageError saying what to do
 */
export async function checkCheckout(git: Git, url: string, commit: string, branch: string): Promise<void> {
  await checkVersion(git, 'land', OLDEST_GIT)
  const asked = await git(['rev-parse', '--is-shallow-repository', `${commit}^{commit}`, '--'])
  const [isShallow, found] = asked.stdout.split('\n')
  if (!isShallow) throw new UsageError(`land needs a checkout: ${reasonOf(asked)}`)
  if (isShallow === 'true')
    throw new UsageError('land needs the whole history to merge: run git fetch --unshallow')
  if (found !== commit) throw new UsageError(`${commit} is not a commit in this checkout; fetch it first`)
  if ((await git(['check-ref-format', `refs/heads/${branch}`])).code !== 0)
    throw new UsageError(`--onto: "${branch}" is not a name of a branch`)
  const origin = addressOf((await git(['ls-remote', '--get-url', 'origin'])).stdout.trim())
  if (origin.toLowerCase() !== addressOf(url).toLowerCase())
    throw new UsageError(
      `the remote origin is ${origin}, but land pushes to ${url} alone; land from a clone of it, or run git remote set-url origin ${url}`,
    )
  const rewritten = addressOf(await pushAddress(git, url))
  if (rewritten.toLowerCase() !== addressOf(url).toLowerCase())
    throw new UsageError(
      `git pushes to ${rewritten} instead of ${url} (insteadOf, pushInsteadOf), but land pushes to ${url} alone`,
    )
}

/** Returns the address to which git pushes what is for an address; see `url` in git-config(1). */
async function pushAddress(git: Git, url: string): Promise<string> {
  const listed = await git(['config', '--null', '--get-regexp', '^url\\..*\\.pushinsteadof$'])
  const [longest] = listed.stdout
    .split('\0')
    .map((entry) => ({ key: entry.split('\n', 1)[0] ?? '', prefix: entry.slice(entry.indexOf('\n') + 1) }))
    .filter(({ key, prefix }) => key !== '' && url.startsWith(prefix))
    .sort((one, other) => other.prefix.length - one.prefix.length)
  if (longest) {
    const base = longest.key.slice('url.'.length, -'.pushinsteadof'.length)
    return base + url.slice(longest.prefix.length)
  }
  return (await git(['ls-remote', '--get-url', url])).stdout.trim()
}

/** Returns an address without user, password and `.git`. */
function addressOf(url: string): string {
  if (!URL.canParse(url)) return url
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname.replace(/\/$/, '').replace(/\.git$/, '')}`
}
