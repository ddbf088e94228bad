import { operations } from '../generated/operations.ts'
import type { StatusReport } from '../index.ts'
import { parse, wordsOf } from './arguments.ts'
import { checkRunOptions, namedRun } from './check-run.ts'
import { findContext } from './context.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { readJunit } from './junit.ts'
import { findReportTarget, targetOptions, waitForCommitOf } from './target.ts'
import { noticeSlow, plain, print, printJson, say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

const STATES = operations.reportStatus.values.state
const { maxLength } = operations.reportStatus

type TextField = keyof typeof maxLength
type OptionOf<Name extends string> = Name extends `${infer Start}_${infer Rest}`
  ? `${Start}-${OptionOf<Rest>}`
  : Name

// `Object.keys` and `Object.fromEntries` have types for any names.
const textFields = Object.keys(maxLength) as TextField[]
/** The options of text fields. */
export type TextOption = OptionOf<TextField>
/** Each text field of a report has an option: `target_url` has `--target-url`. */
const optionOf = (field: TextField) => field.replaceAll('_', '-') as TextOption
const textOptions = Object.fromEntries(
  textFields.map((field) => [optionOf(field), { type: 'string' } as const]),
) as Record<TextOption, { type: 'string' }>
export const reportOptions = {
  ...targetOptions,
  ...textOptions,
  ...checkRunOptions,
  state: { type: 'string' },
  junit: { type: 'string', multiple: true },
  'wait-for-commit': { type: 'string' },
  truncate: { type: 'boolean' },
  json: { type: 'boolean' },
} as const

/** Runs `commit-status report`: sends one status. */
export async function report(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values, tokens } = parse({ args, allowPositionals: true, tokens: true, options: reportOptions })
  const [files, [extra]] = wordsOf('junit', tokens)
  if (extra !== undefined) throw new UsageError(`unexpected word "${extra}"`)
  const state = STATES.find((name) => name === values.state)
  if (!state)
    throw new UsageError(
      `--state must be one of ${STATES.join(', ')}${values.state === undefined ? '' : `; got "${values.state}"`}`,
    )
  const checkRun = namedRun(values, env)
  const context = findContext(values.context, env)
  const waitForCommit = waitForCommitOf(values)
  const { client, owner, repo, sha, targetUrl } = await findReportTarget(values, env, checkRun?.fetch)
  const given = values.truncate ? truncate(values.description) : values.description
  const description = (await readJunit(files))?.description ?? given
  const texts = { ...values, context, description, 'target-url': targetUrl || undefined, run: undefined }
  const fields: StatusReport = { state }
  for (const field of textFields) {
    const text = texts[optionOf(field)]
    if (text !== undefined) fields[field] = text
  }
  const unmeasured =
    checkRun && (await noticeSlow(checkRun.measure(() => client.getVerdict({ owner, repo, sha }))))
  if (unmeasured) {
    say(`${state} of ${context} was not stored: ${unmeasured.reason}`)
    return unmeasured.exitCode
  }
  const body = checkRun?.of(fields) ?? fields
  const result = await noticeSlow(
    client.reportStatus({ owner, repo, sha, body }, { waitForCommit }),
    waitForCommit,
  )
  if (result.status === 409) {
    say(state === 'pending' ? result.body.error : `a newer run reports ${context} now`)
    if (values.json) printJson(result.body)
    return exitCodes.success
  }
  if (result.status !== 201) {
    say(`${state} of ${context} was not stored: ${result.body.error}`)
    return exitCodeOf(result)
  }
  if (values.json) printJson(result.body)
  else print(plain(`${owner}/${repo} ${sha} ${context} ${state}`))
  return exitCodes.success
}

/** Truncates a description to the maximum length in code points. */
function truncate(description: string | undefined): string | undefined {
  if (description === undefined) return undefined
  return Array.from(description).slice(0, operations.reportStatus.maxLength.description).join('')
}
