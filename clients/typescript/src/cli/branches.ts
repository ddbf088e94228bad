import { CommitStatusError } from '../errors.ts'
import type { BranchSummary } from '../index.ts'
import { parse } from './arguments.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { findRepository, targetOptions } from './target.ts'
import { hasColors, noticeSlow, paint, plain, print, printJson, say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

const { repo, url } = targetOptions
export const branchesOptions = {
  match: { type: 'string' },
  verdict: { type: 'string' },
  json: { type: 'boolean' },
  repo,
  url,
} as const

const VERDICTS = ['success', 'pending', 'failure'] as const

/** Runs `commit-status branches`: lists branches and what their newest commits have passed. */
export async function branches(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parse({ args, options: branchesOptions })
  const { match, json } = values
  const verdict = VERDICTS.find((each) => each === values.verdict)
  if (values.verdict !== undefined && !verdict)
    throw new UsageError(`--verdict must be one of ${VERDICTS.join(', ')}; got "${values.verdict}"`)
  const { client, job: _, ...repository } = await findRepository(values, env)
  const colors = hasColors(process.stdout, env)

  const all: BranchSummary[] = []
  let [leftOut, isTruncated] = [0, false]
  const input = { ...repository, ...(match !== undefined && { match }), ...(verdict && { verdict }) }
  const pages = client.branchPages(input)
  try {
    for (;;) {
      const { value: page } = await noticeSlow(pages.next())
      if (!page) break
      if (!json) for (const branch of page.branches) print(row(branch, colors))
      all.push(...page.branches)
      leftOut = page.left_out
      isTruncated = page.truncated
    }
  } catch (error) {
    if (!(error instanceof CommitStatusError)) throw error
    say(`cannot list the branches: ${plain(error.message)}`)
    return exitCodeOf(error)
  }
  if (json) printJson(all)
  if (leftOut > 0) say(`left out ${leftOut} whose names are not UTF-8 or too long`)
  if (isTruncated) say('the repository has more branches than the service lists')
  return exitCodes.success
}

/** Formats a branch: its verdict or, without rules, the state of its newest commit in parentheses. */
function row({ name, sha, state, verdict }: BranchSummary, colors: boolean): string {
  const shown = verdict ?? state
  const text = verdict ?? `(${state ?? 'none'})`
  const word = text.padEnd(9)
  return `${shown ? paint(word, shown, colors) : word}  ${sha}  ${plain(name)}`
}
