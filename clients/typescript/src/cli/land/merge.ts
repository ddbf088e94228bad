import { type Git, reasonOf } from '../git.ts'
import { UsageError } from '../usage-error.ts'
import { LandingEnd } from './landing-end.ts'

/** Maximum number of conflicting files that are named. They become arguments of git, whose size is limited. */
const MOST_FILES = 100
/** git refuses to commit with a name of these characters alone; imported commits may have one. */
const NAMELESS = /^[\0-\x20.,:;<>"'\\]*$/

/** Returns whether a commit is an ancestor of another one, or the same. */
export async function isAncestor(git: Git, old: string, tip: string): Promise<boolean> {
  const result = await git(['merge-base', '--is-ancestor', old, tip])
  if (result.code > 1 || result.code < 0) throw new UsageError(`git merge-base: ${reasonOf(result)}`)
  return result.code === 0
}

/**
 * Returns the commit that a branch with this tip gets: the commit itself if it descends from the
 * tip, otherwise a merge of both. The merge follows from the two alone, so that who comes again
 * finds the same one, with what was reported on it. Needs neither work tree nor index.
 *
 * @throws LandingEnd when they conflict
 */
export async function mergeOf(git: Git, commit: string, tip: string, branch: string): Promise<string> {
  if (await isAncestor(git, tip, commit)) return commit
  const merged = await git(['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', tip, commit])
  const [tree = '', ...files] = merged.stdout.split('\0')
  if (merged.code === 1)
    throw new LandingEnd('conflict', await describeConflict(git, commit, tip, branch, files))
  if (merged.code !== 0) throw new UsageError(`git merge-tree: ${reasonOf(merged)}`)
  const format = '--format=%ct%x00%an%x00%ae%x00%s'
  const shown = await git(['show', '-s', '--no-show-signature', '--encoding=UTF-8', format, commit, tip])
  const [[time = '', author = '', email = '', subject = ''] = [], [tipTime = ''] = []] = shown.stdout
    .split('\n')
    .map((line) => line.split('\0'))
  const date = `${Math.max(Number(time), Number(tipTime))} +0000`
  const name = NAMELESS.test(author) ? 'unknown' : author
  const message = `Merge ${commit.slice(0, 12)} into ${branch}\n\n${subject}\n`
  const created = await git(['commit-tree', tree, '-p', tip, '-p', commit], {
    input: message,
    env: {
      GIT_AUTHOR_NAME: name,
      GIT_AUTHOR_EMAIL: email,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: name,
      GIT_COMMITTER_EMAIL: email,
      GIT_COMMITTER_DATE: date,
    },
  })
  if (created.code !== 0) throw new UsageError(`git commit-tree: ${reasonOf(created)}`)
  return created.stdout.trim()
}

/** Names the first files, and the last commit of the branch that changed one of them. */
async function describeConflict(git: Git, commit: string, tip: string, branch: string, conflicts: string[]) {
  const names = [...new Set(conflicts.filter(Boolean))]
  const named = names.slice(0, MOST_FILES)
  const rest = names.length - named.length
  const paths = named.map((name) => `:(top,literal)${name}`)
  const last = await git(['log', '--max-count=1', '--format=%h "%s"', `${commit}..${tip}`, '--', ...paths])
  const other = last.stdout.trim() || tip.slice(0, 12)
  const files = `${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
  return `${commit.slice(0, 12)} conflicts with ${other} of ${branch} in ${files}`
}
