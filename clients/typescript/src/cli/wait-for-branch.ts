import { waitDefaults } from '../wait-for-state.ts'
import { unmetChecks } from './describe-verdict.ts'
import { printEvents } from './events.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { statusRows } from './get.ts'
import { createOutageNotice } from './outage.ts'
import { type Target, totalTimeoutOf } from './target.ts'
import { hasColors, plain, print, printJson, say } from './terminal.ts'
import { waitForVerdict } from './wait-for-verdict.ts'

interface BranchWait {
  timeout?: number | undefined
  interval?: number | undefined
  waitForCommit: number
  allowNoRules: boolean | undefined
  events: boolean | undefined
  json: boolean | undefined
}

/**
 * Runs `commit-status wait --branch`: ends when a commit has passed or failed what the rules of the
 * branch require.
 */
export async function waitForBranch(
  { client, owner, repo, sha }: Target,
  branch: string,
  { timeout, interval, waitForCommit, allowNoRules, events, json }: BranchWait,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const changes = printEvents()
  const result = await waitForVerdict(
    client,
    { owner, repo, sha, branch },
    {
      timeout: timeout ?? waitDefaults.timeout,
      interval: interval ?? waitDefaults.interval,
      readTimeout: totalTimeoutOf(env),
      waitForCommit,
      allowNoRules,
      onOutage: createOutageNotice(),
      onChange({ verdict, required }, statuses) {
        if (events) changes.update({ statuses })
        else if (verdict === 'pending') say(unmetChecks(required).join(', ') || 'nothing has reported')
      },
    },
  )
  if (result.outcome === 'unanswered') {
    say(`cannot read the verdict: ${result.answer.body.error}`)
    return exitCodeOf(result.answer)
  }
  if (result.outcome === 'noRules') {
    say(noRuleMatches(branch))
    return exitCodes.noRules
  }
  const { outcome, verdict, decisive } = result
  if (json) printJson({ outcome, ...verdict, decisive })
  else {
    const count = verdict.required.length
    const known = count > 0 ? `${count} required` : 'no check is required'
    print(plain(`${outcome}: ${unmetChecks(verdict.required).join(', ') || known}`))
    if (!events) for (const row of statusRows(decisive, hasColors(process.stdout, env))) print(row)
  }
  return exitCodes[outcome]
}

/** Says that a verdict required nothing, and why that may be. */
export function noRuleMatches(branch: string): string {
  if (branch.startsWith('refs/tags/')) return `no rule matches the tag ${branch}`
  return `no rule matches the branch ${branch}: name a branch of the server, without the name of a remote`
}
