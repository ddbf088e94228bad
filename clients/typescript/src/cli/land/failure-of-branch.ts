import { countsAs } from '../../generated/operations.ts'
import type { Client, Status } from '../../index.ts'
import type { Git } from '../git.ts'

interface Branch {
  client: Client
  owner: string
  repo: string
  git: Git
  branch: string
  signal: AbortSignal
}

/** Maximum number of commits whose statuses are read. */
const MOST_READ = 20

/**
 * Says that a branch fails the same checks without the commit that is landed, since which commit,
 * and what passed last. Undefined if it does not, or if that cannot be read: the landing has failed
 * either way.
 *
 * @param tip of the branch
 * @param decisive the failed statuses of the merge
 */
export async function failureOfBranch(
  { client, owner, repo, git, branch, signal }: Branch,
  tip: string,
  decisive: readonly Status[],
): Promise<string | undefined> {
  const contexts = new Set(decisive.map(({ context }) => context))
  /** Returns what those checks have reported on a commit, and which of them failed. */
  async function read(sha: string) {
    const answer = await client.listStatuses({ owner, repo, sha }, { signal })
    const statuses = answer.status === 200 ? answer.body.statuses : []
    const reported = statuses.filter(({ context }) => contexts.has(context))
    return { reported, failed: reported.filter(({ state }) => countsAs.State[state] === 'failure') }
  }
  const { failed } = await read(tip)
  if (failed.length === 0) return undefined

  const answer = await client.getLastPassed({ owner, repo, branch }, { signal })
  const lastPassed = answer.status === 200 ? answer.body.commit?.sha : undefined
  const range = lastPassed === undefined ? tip : `${lastPassed}..${tip}`
  const listed = await git(['rev-list', '--first-parent', `--max-count=${MOST_READ}`, range, '--'])
  const older = listed.stdout.split('\n').filter((sha) => sha && sha !== tip)
  let [since, first] = [tip, failed]
  for (const sha of older) {
    const { reported, failed: failures } = await read(sha)
    // One on which nothing has completed counts neither way.
    if (reported.some(({ state }) => countsAs.State[state] === 'success') && failures.length === 0) break
    if (failures.length > 0) [since, first] = [sha, failures]
  }
  const names = failed.map(({ context }) => context).join(', ')
  const time = first.map(({ created_at }) => created_at).sort()[0]
  const isCut = older.length >= MOST_READ - 1 && since === older.at(-1)
  const passed = lastPassed === undefined ? 'no commit is known to have passed' : `${lastPassed} passed last`
  return `${branch} fails ${names} too, without this commit, since ${since} (${time})${isCut ? ' or before' : ''}; ${passed}`
}
