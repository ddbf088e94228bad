import { constants } from 'node:os'
import type { StatusReport } from '../index.ts'
import { sleep } from '../sleep.ts'
import { parse } from './arguments.ts'
import { type Command, type Ending, start } from './command.ts'
import { formatDuration } from './duration.ts'
import { openReporter } from './reporter.ts'
import { targetOptions } from './target.ts'
import { say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']
/** The command starts when `pending` is stored, but waits no longer than this, in milliseconds. */
const HEAD_START = 1_000
const NOT_STARTED = 127

/**
 * `commit-status run -- COMMAND…`: reports a command's result, and ends with the command's own exit code.
 *
 * @throws UsageError before anything is run.
 */
export async function run(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values, command } = readArguments(args)
  const cancelled = new AbortController()
  let child: Command | undefined
  let cancelledBy: NodeJS.Signals | undefined
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      // A terminal sends what is typed there to the command as well.
      if (!(process.stdin.isTTY && (signal === 'SIGINT' || signal === 'SIGQUIT'))) child?.kill(signal)
      cancelledBy ??= signal
      cancelled.abort()
    })
  }

  const report = await openReporter(values, env)
  // Whoever cancels a job may kill it soon after: tell at once, not only when the command has ended.
  cancelled.signal.addEventListener('abort', () => void report('error', `cancelled by ${cancelledBy}`))
  if (!cancelled.signal.aborted) {
    await Promise.race([report('pending', 'running'), sleep(HEAD_START, cancelled.signal)])
  }
  const started = performance.now()
  if (!cancelledBy) child = start(...command)
  const ending: Ending = child ? await child.ended : { kind: 'killed', signal: cancelledBy ?? 'SIGTERM' }
  const { state, description, exitCode } = resultOf(ending, performance.now() - started, cancelledBy)
  if (ending.kind === 'not started') say(`${command[0]} could not be started: ${ending.reason}`)
  const result = await report(state, description)
  if (result.stored) return exitCode
  say(`${values.strict ? 'error' : 'warning'}: "${state}, ${description}" was not stored: ${result.reason}`)
  return exitCode === 0 && values.strict ? result.exitCode : exitCode
}

function readArguments(args: string[]) {
  const end = args.indexOf('--')
  const [name, ...rest] = end < 0 ? [] : args.slice(end + 1)
  if (!name) throw new UsageError('what is to be run? commit-status run [OPTION…] -- COMMAND…')
  const { values } = parse({
    args: args.slice(0, end),
    options: {
      ...targetOptions,
      context: { type: 'string' },
      'target-url': { type: 'string' },
      strict: { type: 'boolean', default: false },
    },
  })
  const command: [string, string[]] = [name, rest]
  return { values, command }
}

function resultOf(
  ending: Ending,
  milliseconds: number,
  cancelledBy: NodeJS.Signals | undefined,
): { state: StatusReport['state']; description: string; exitCode: number } {
  const after = `after ${formatDuration(milliseconds)}`
  if (ending.kind === 'not started') {
    return { state: 'error', description: `could not be started: ${ending.reason}`, exitCode: NOT_STARTED }
  }
  if (ending.kind === 'killed') {
    const exitCode = 128 + constants.signals[ending.signal]
    return { state: 'error', description: `killed by ${ending.signal} ${after}`, exitCode }
  }
  const { code } = ending
  if (code !== 0) return { state: 'failure', description: `exit code ${code} ${after}`, exitCode: code }
  // A check that was cut short has shown nothing, however tidily it ended.
  if (cancelledBy) return { state: 'error', description: `cancelled by ${cancelledBy} ${after}`, exitCode: 0 }
  return { state: 'success', description: `passed in ${formatDuration(milliseconds)}`, exitCode: 0 }
}
