import { randomUUID } from 'node:crypto'
import { abortable } from '../sleep.ts'
import { parse, wordsOf } from './arguments.ts'
import { type SignalSource, watchSignals } from './cancellation.ts'
import { checkRunOptions, createCheckRun, namedRun } from './check-run.ts'
import { changedFiles, resolveCommit } from './checkout.ts'
import { type Command, start } from './command.ts'
import { findContext } from './context.ts'
import { describeResult, describeStartError } from './ending.ts'
import { exitCodes } from './exit-codes.ts'
import { findJob } from './job.ts'
import { openReporter, type Stored } from './reporter.ts'
import { targetOptions, waitForCommitOf } from './target.ts'
import { noticeSlow, say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

export const runOptions = {
  ...targetOptions,
  ...checkRunOptions,
  context: { type: 'string' },
  'target-url': { type: 'string' },
  'wait-for-commit': { type: 'string' },
  junit: { type: 'string', multiple: true },
  clean: { type: 'boolean' },
  'pass-token': { type: 'boolean' },
  strict: { type: 'boolean', default: false },
} as const

/**
 * Runs `commit-status run -- COMMAND…`: runs a command, reports its result, and returns the
 * command's exit code.
 *
 * @throws UsageError before anything is run
 */
export async function run(args: string[], env: NodeJS.ProcessEnv, signals: SignalSource): Promise<number> {
  const { values, files, command } = readArguments(args)
  const checkRun = namedRun(values, env) ?? createCheckRun(randomUUID())
  const context = findContext(values.context, env)
  const waitForCommit = waitForCommitOf(values)
  if (values.clean) await requireClean(values.sha, env)
  const cancellation = watchSignals(signals)

  const report = await openReporter({ ...values, context, waitForCommit }, checkRun, env)
  // A cancelled job may be killed soon after: report at once, not only when the command has ended.
  const { cancelled, givenUp } = cancellation
  cancelled.addEventListener('abort', () => void report('error', `cancelled by ${cancellation.signal}`))
  // The command does not wait for it.
  if (!cancelled.aborted) void report('pending', 'running')
  const started = performance.now()
  const startedAt = Date.now()
  // The command may run code that is being reviewed, which could report its own success.
  const { COMMIT_STATUS_TOKEN: _token, ...withoutToken } = env
  const child: Command = cancellation.signal
    ? killedBy(cancellation.signal)
    : start(...command, values['pass-token'] ? env : withoutToken)
  const ending = await cancellation.passTo(child)
  const { state, exitCode, description } = await describeResult(ending, performance.now() - started, {
    cancelledBy: cancellation.signal,
    files,
    since: startedAt,
  })
  if (ending.kind === 'not started') say(`${command[0]} ${describeStartError(ending.reason)}`)
  const result = await abortable(noticeSlow(report(state, description), waitForCommit), givenUp).catch(
    (): Stored => ({ stored: false, reason: 'a signal ended the attempts', exitCode: exitCodes.unanswered }),
  )
  if (result.stored === 'newer') say(`a newer run reports ${context} now`)
  if (result.stored) return exitCode
  say(`${values.strict ? 'error' : 'warning'}: "${state}, ${description}" was not stored: ${result.reason}`)
  return exitCode === 0 && values.strict ? result.exitCode : exitCode
}

/** A command that was cancelled before it was started. */
function killedBy(signal: NodeJS.Signals): Command {
  return { ended: Promise.resolve({ kind: 'killed', signal }), kill: () => {} }
}

/** @throws UsageError unless the checkout holds exactly the commit to report on */
async function requireClean(given: string | undefined, env: NodeJS.ProcessEnv): Promise<void> {
  const folder = process.cwd()
  const { sha } =
    given === undefined
      ? await findJob(env, folder, { repository: true })
      : { sha: resolveCommit(folder, given) }
  const head = resolveCommit(folder, 'HEAD')
  if (head === undefined || sha !== head)
    throw new UsageError(`--clean: the checkout is at ${head ?? 'no commit'}, not at ${given ?? sha}`)
  const changes = changedFiles(folder) ?? 'git status failed'
  if (changes !== '') throw new UsageError(`--clean: commit or remove what differs from ${head}:\n${changes}`)
}

function readArguments(args: string[]) {
  const end = args.indexOf('--')
  const [name, ...rest] = end < 0 ? [] : args.slice(end + 1)
  if (!name) throw new UsageError('missing command: commit-status run [OPTION…] -- COMMAND…')
  const own = { args: args.slice(0, end), allowPositionals: true, tokens: true, options: runOptions } as const
  const { values, tokens } = parse(own)
  const [files, [extra]] = wordsOf('junit', tokens)
  if (extra !== undefined) throw new UsageError(`unexpected word "${extra}"`)
  const command: [string, string[]] = [name, rest]
  return { values, files, command }
}
