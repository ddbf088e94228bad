import type { Status } from '../index.ts'
import { matchesPattern } from '../pattern.ts'
import { checkRequired, oneBranch, oneCommit, parse, wordsOf } from './arguments.ts'
import { describeResult } from './describe-wait.ts'
import { parseDuration } from './duration.ts'
import { printEvents } from './events.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { statusRows } from './get.ts'
import { createOutageNotice } from './outage.ts'
import { findTarget, targetOptions, waitForCommitOf } from './target.ts'
import { hasColors, print, printJson, say } from './terminal.ts'
import { UsageError } from './usage-error.ts'
import { waitForBranch } from './wait-for-branch.ts'
import { showProgress } from './wait-progress.ts'

export const waitOptions = {
  ...targetOptions,
  require: { type: 'string', multiple: true },
  only: { type: 'boolean' },
  settle: { type: 'string' },
  stalled: { type: 'string' },
  timeout: { type: 'string' },
  interval: { type: 'string' },
  'wait-for-commit': { type: 'string' },
  branch: { type: 'string' },
  onto: { type: 'string' },
  'allow-no-rules': { type: 'boolean' },
  events: { type: 'boolean' },
  json: { type: 'boolean' },
} as const

/** Runs `commit-status wait`: ends when the statuses of a commit decide; see `decideWait`. */
export async function wait(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values: given, sha, patterns } = readArguments(args)
  const values = { ...given, branch: oneBranch(given.onto, given.branch) }
  const time = (name: 'settle' | 'stalled' | 'timeout' | 'interval') =>
    values[name] === undefined ? undefined : parseDuration(values[name], `--${name}`)
  const rules = {
    require: patterns,
    only: values.only,
    settle: time('settle'),
    stalled: time('stalled'),
    timeout: time('timeout'),
    interval: time('interval'),
    waitForCommit: waitForCommitOf(values),
  }
  const own = ['require', 'only', 'settle', 'stalled'] as const
  const extra = values.branch === undefined ? undefined : own.find((name) => values[name] !== undefined)
  if (extra) throw new UsageError(`--${extra} does not go with --branch, whose rules say what is required`)
  if (values['allow-no-rules'] && values.branch === undefined)
    throw new UsageError('--allow-no-rules needs --branch NAME')
  if (rules.only && patterns.length === 0) throw new UsageError('--only needs at least one --require PATTERN')
  checkRequired(patterns)
  const target = await findTarget({ ...values, sha, 'target-url': '' }, env)
  if (values.branch !== undefined) {
    const { 'allow-no-rules': allowNoRules, events, json } = values
    return waitForBranch(target, values.branch, { ...rules, allowNoRules, events, json }, env)
  }
  const { client, ...commit } = target
  if (patterns.length === 0 && !values.events)
    say('without --require, only contexts that have been reported so far count')
  const progress = values.events ? printEvents() : showProgress(process.stderr)
  /** Leaves out the statuses that `--only` ignores. */
  const counted = <T extends { statuses: Status[] }>(read: T): T => {
    const counts = ({ context }: Status) => patterns.some((pattern) => matchesPattern(pattern, context))
    return rules.only ? { ...read, statuses: read.statuses.filter(counts) } : read
  }
  const result = await client
    .waitForState(commit, {
      ...rules,
      onChange: (read) => progress.update(counted(read)),
      onOutage: createOutageNotice((message) => {
        progress.clear()
        say(message)
      }),
    })
    .finally(progress.end)
  if (result.outcome === 'unanswered') {
    say(`cannot read the statuses: ${result.answer.body.error}`)
    return exitCodeOf(result.answer)
  }
  const { outcome, time: _time, ...rest } = result
  if (values.json) printJson({ outcome, ...rest })
  else {
    print(`${outcome}: ${describeResult(counted(result))}`)
    if (!values.events && (outcome === 'failure' || outcome === 'stalled')) {
      for (const row of statusRows(result.decisive, hasColors(process.stdout, env))) print(row)
    }
  }
  return exitCodes[outcome]
}

/** Words after `--require` up to the next option are patterns; a word before it is the commit. */
function readArguments(args: string[]) {
  const { values, tokens } = parse({ args, allowPositionals: true, tokens: true, options: waitOptions })
  const [patterns, commits] = wordsOf('require', tokens)
  return { values, sha: oneCommit(values.sha, commits), patterns }
}
