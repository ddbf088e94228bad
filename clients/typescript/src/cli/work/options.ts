import { createHash } from 'node:crypto'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { parse, wordsOf } from '../arguments.ts'
import { parseDuration } from '../duration.ts'
import { splitName, targetOptions } from '../target.ts'
import { UsageError } from '../usage-error.ts'
import type { LogSettings } from './output.ts'

export const workOptions = {
  repo: { type: 'string', multiple: true },
  context: { type: 'string' },
  match: { type: 'string' },
  every: { type: 'string' },
  jobs: { type: 'string' },
  'max-age': { type: 'string' },
  junit: { type: 'string', multiple: true },
  once: { type: 'boolean', default: false },
  cancel: { type: 'boolean', default: false },
  logs: { type: 'string' },
  'log-url': { type: 'string' },
  keep: { type: 'string' },
  folder: { type: 'string' },
  url: targetOptions.url,
} as const

/** Milliseconds between two questions, of which each may need several requests. */
const SHORTEST_PAUSE = 100
/** Longest `--max-age`, in milliseconds: 100 years. */
const LONGEST_AGE = 36_525 * 86_400_000

/**
 * Reads the arguments of `commit-status work`.
 *
 * @throws UsageError for a missing or invalid one
 */
export function readOptions(args: string[]) {
  const end = args.indexOf('--')
  const [file, ...rest] = end < 0 ? [] : args.slice(end + 1)
  if (!file) throw new UsageError('missing command: commit-status work [OPTION…] -- COMMAND…')
  const own = {
    args: args.slice(0, end),
    allowPositionals: true,
    tokens: true,
    options: workOptions,
  } as const
  const { values, tokens } = parse(own)
  const [files, [extra]] = wordsOf('junit', tokens)
  if (extra !== undefined) throw new UsageError(`unexpected word "${extra}"`)
  if (!values.context) throw new UsageError('missing --context NAME: a check that only workers report')
  // The server ignores case in names.
  const repositories = new Map(values.repo?.map((name) => [name.toLowerCase(), name]))
  const names = [...repositories.values()].map(splitName)
  if (names.length === 0) throw new UsageError('missing repository: give --repo OWNER/NAME, once for each')
  const command: [string, string[]] = [file, rest]
  return {
    command,
    names,
    url: values.url,
    context: values.context,
    match: values.match,
    every: parsePause(values.every ?? '5s'),
    jobs: parseCount(values.jobs ?? '1', '--jobs'),
    maxAge: parseDuration(values['max-age'] ?? '7d', '--max-age', LONGEST_AGE),
    junit: files,
    once: values.once,
    cancel: values.cancel,
    logs: readLogs(values),
    folder: values.folder,
  }
}

function parsePause(text: string): number {
  const milliseconds = parseDuration(text, '--every')
  if (milliseconds >= SHORTEST_PAUSE) return milliseconds
  throw new UsageError(`--every must be at least ${SHORTEST_PAUSE / 1_000}s; got "${text}"`)
}

function parseCount(text: string, name: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text)
  throw new UsageError(`${name} must be a number from 1 to 9999; got "${text}"`)
}

function readLogs(values: {
  logs?: string | undefined
  'log-url'?: string | undefined
  keep?: string | undefined
}): LogSettings | undefined {
  const link = values['log-url']
  const keep = parseCount(values.keep ?? '20', '--keep')
  if (link !== undefined) {
    if (values.logs === undefined) throw new UsageError('--log-url needs --logs DIR')
    const isLink = /^https?:\/\//i.test(link) && URL.canParse(link.replaceAll('{log}', 'a.log'))
    if (!isLink || !link.includes('{log}'))
      throw new UsageError(`--log-url must be a URL like https://logs.example.org/{log}; got "${link}"`)
  }
  return values.logs === undefined ? undefined : { folder: resolve(values.logs), keep, link }
}

/**
 * Returns the folder of workers that do the same: of two on one machine, the second one ends.
 */
export function defaultFolder(baseUrl: string, context: string, env: NodeJS.ProcessEnv): string {
  const state = env.STATE_DIRECTORY || env.XDG_STATE_HOME || join(homedir(), '.local/state')
  const name = createHash('sha256').update(`${baseUrl}\n${context}`).digest('hex').slice(0, 12)
  return join(state, `commit-status-work-${name}`)
}
