import { checkRequired, parse, wordsOf } from './arguments.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { commitNamed, findRepository, targetOptions } from './target.ts'
import { noticeSlow, plain, print, printJson, say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

const { repo, url } = targetOptions
export const lastPassedOptions = {
  branch: { type: 'string' },
  require: { type: 'string', multiple: true },
  unless: { type: 'string' },
  after: { type: 'string' },
  json: { type: 'boolean' },
  repo,
  url,
} as const

/** Runs `commit-status last-passed`: prints the id of the last commit of a branch that passed. */
export async function lastPassed(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = { args, allowPositionals: true, tokens: true, options: lastPassedOptions } as const
  const { values, tokens } = parse(config)
  const [require, others] = wordsOf('require', tokens)
  if (others.length > 0) throw new UsageError(`unexpected argument "${others[0]}"`)
  const { branch, unless, json } = values
  if (!branch) throw new UsageError('missing branch: give --branch NAME')
  checkRequired(require)
  if (unless?.includes('*'))
    throw new UsageError(`--unless: "${unless}" contains "*"; name one context exactly`)
  const after = values.after === undefined ? undefined : commitNamed(values.after)
  const { client, job: _, ...repository } = await findRepository(values, env)

  const input = {
    ...repository,
    branch,
    ...(unless !== undefined && { unless }),
    ...(after !== undefined && { after }),
    ...(require.length > 0 && { require }),
  }
  const result = await noticeSlow(client.getLastPassed(input))
  if (result.status === 304) throw new Error('the service answered 304 to a read without If-None-Match')
  if (result.status !== 200) {
    say(`cannot find the last commit that passed: ${plain(result.body.error)}`)
    const isRuled = result.status !== 422 || require.length > 0 || (await hasRules())
    return isRuled ? exitCodeOf(result) : exitCodes.noRules
  }

  const { commit, looked_at: count, next } = result.body
  if (json) printJson(result.body)
  else if (commit) print(commit.sha)
  if (commit) return exitCodes.success
  const where = next ? `; go on with --after ${next}` : ', and there are no more'
  say(`none of ${count} ${count === 1 ? 'commit' : 'commits'} of ${plain(branch)} has passed${where}`)
  return exitCodes.pending

  /** Returns whether rules match the branch; also true if that cannot be read. */
  async function hasRules(): Promise<boolean> {
    const name = (branch ?? '').replace(/^refs\/heads\//, '')
    const page = await client.listBranches({ ...repository, match: name, limit: 1 })
    const [summary] = page.status === 200 ? page.body.branches : []
    return summary?.name !== name || summary.verdict !== null
  }
}
