import type { WaitProgress } from '../index.ts'
import { oneSha, parse } from './arguments.ts'
import { parseDuration } from './duration.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { isFullId } from './job.ts'
import { findTarget, targetOptions } from './target.ts'
import { plain, print, say } from './terminal.ts'

/** `commit-status wait`: ends when every required context has reported and the combined state is final. */
export async function wait(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals } = parse({
    args,
    allowPositionals: true,
    options: {
      ...targetOptions,
      require: { type: 'string', multiple: true, default: [] },
      timeout: { type: 'string', default: '10m' },
      interval: { type: 'string', default: '1s' },
      json: { type: 'boolean' },
    },
  })
  // `--require a b c` names three contexts: only a full commit id among them is none.
  const contexts = values.require.length > 0 ? positionals.filter((text) => !isFullId(text)) : []
  const sha = oneSha(
    values.sha,
    positionals.filter((text) => !contexts.includes(text)),
  )
  const options = {
    require: [...values.require, ...contexts],
    timeout: parseDuration(values.timeout, '--timeout'),
    interval: parseDuration(values.interval, '--interval'),
  }
  const { client, ...commit } = await findTarget({ ...values, sha, 'target-url': '' }, env)
  const result = await client.waitForState(commit, { ...options, onChange: showProgress })
  clearProgress()
  if (result.outcome === 'unanswered') {
    say(`the statuses were not read: ${result.answer.body.error}`)
    return exitCodeOf(result.answer)
  }
  const { outcome, ...progress } = result
  print(values.json ? JSON.stringify({ outcome, ...progress }) : `${outcome}: ${describe(progress)}`)
  return exitCodes[outcome]
}

function describe({ statuses, missing }: WaitProgress): string {
  const counted = (['success', 'pending', 'failure', 'error'] as const)
    .map((state) => ({ state, count: statuses.filter((status) => status.state === state).length }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${count} ${state}`)
  const absent = missing.length > 0 ? [`not reported: ${plain(missing.join(', '))}`] : []
  return [...counted, ...absent].join(', ') || 'nothing has reported'
}

function showProgress(progress: WaitProgress): void {
  if (!process.stderr.isTTY) return
  const line = `waiting: ${describe(progress)}`
  process.stderr.write(`\r\x1b[K${line.slice(0, process.stderr.columns - 1)}`)
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
}
