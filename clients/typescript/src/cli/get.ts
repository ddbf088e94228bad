import type { CommitStatuses, Status } from '../index.ts'
import { oneCommit, parse } from './arguments.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { findTarget, targetOptions } from './target.ts'
import { hasColors, noticeSlow, paint, plain, print, printJson, say } from './terminal.ts'

export const getOptions = { ...targetOptions, json: { type: 'boolean' } } as const

/** Runs `commit-status get`: shows the statuses of a commit. */
export async function get(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals } = parse({ args, allowPositionals: true, options: getOptions })
  const sha = oneCommit(values.sha, positionals)
  const { client, ...commit } = await findTarget({ ...values, sha, 'target-url': '' }, env)
  const result = await noticeSlow(client.listStatuses(commit))
  if (result.status === 304) throw new Error('the service answered 304 to a read without If-None-Match')
  if (result.status !== 200) {
    say(`cannot read the statuses: ${result.body.error}`)
    return exitCodeOf(result)
  }
  if (values.json) printJson(result.body)
  else for (const line of table(result.body, hasColors(process.stdout, env))) print(line)
  return exitCodes.success
}

function table({ state, statuses }: CommitStatuses, colors: boolean): string[] {
  if (state === null) return ['nothing has reported on this commit']
  return [`combined: ${paint(state, state, colors)}`, ...statusRows(statuses, colors)]
}

/** Formats statuses as aligned rows: state, context, description and link. */
export function statusRows(statuses: readonly Status[], colors: boolean): string[] {
  const rows = statuses.map((status) => ({ ...status, context: plain(status.context) }))
  const width = Math.max(...rows.map(({ context }) => Array.from(context).length))
  return rows.map(({ state, context, description, target_url }) => {
    const gap = ' '.repeat(width - Array.from(context).length)
    const more = plain([description, target_url].filter(Boolean).join('  '))
    return `${paint(state.padEnd(7), state, colors)}  ${context}${more && `${gap}  ${more}`}`
  })
}
