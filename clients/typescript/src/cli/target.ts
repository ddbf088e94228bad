import { type Client, createClient } from '../client.ts'
import type { Fetch } from '../transport.ts'
import { isCheckout, resolveCommit } from './checkout.ts'
import { parseDuration } from './duration.ts'
import { findJob, isFullId, type Job } from './job.ts'
import { useProxy } from './proxy.ts'
import { UsageError } from './usage-error.ts'

/** Options that every command takes. */
export const targetOptions = {
  repo: { type: 'string' },
  sha: { type: 'string' },
  url: { type: 'string' },
} as const

/**
 * Returns the milliseconds of `--wait-for-commit`, 0 by default.
 *
 * @throws UsageError for anything but a duration
 */
export function waitForCommitOf(values: { 'wait-for-commit'?: string | undefined }): number {
  return parseDuration(values['wait-for-commit'] ?? '0s', '--wait-for-commit')
}

export interface TargetValues {
  repo?: string | undefined
  sha?: string | undefined
  url?: string | undefined
  'target-url'?: string | undefined
}

/** The commit that a command is about, and a client of its service. */
export interface Target {
  client: Client
  owner: string
  repo: string
  sha: string
  /** Link to the job; empty for none. */
  targetUrl: string
}

/**
 * Determines the commit and the service from options, environment, CI system and checkout.
 *
 * @throws UsageError naming what is missing
 */
export async function findTarget(
  values: TargetValues,
  env: NodeJS.ProcessEnv,
  fetch?: Fetch,
): Promise<Target> {
  const isComplete = values.sha && values['target-url'] !== undefined
  const options = { needsJob: !isComplete, needsCommit: values.sha === undefined, fetch }
  const { job, ...repository } = await findRepository(values, env, options)
  const sha = values.sha === undefined ? job.sha : commitNamed(values.sha)
  if (!sha) {
    throw new UsageError(
      job.foreignEvent === undefined
        ? 'missing commit: give --sha with a commit id, or run in a git checkout'
        : `missing commit: what a job for the event "${job.foreignEvent}" checks out is not what the event is about; give --sha`,
    )
  }
  // Events of annotated tags hand over the id of the tag.
  const isResolved = values.sha !== undefined && !isFullId(values.sha)
  const commit = (isResolved ? undefined : resolveCommit(process.cwd(), sha)) ?? sha
  return { ...repository, sha: commit, targetUrl: values['target-url'] ?? job.targetUrl ?? '' }
}

/**
 * Determines the repository and the service from options, environment, CI system and checkout.
 *
 * @param options.needsJob whether to look for the job although the repository is given
 * @param options.needsCommit whether to look for the job's commit
 * @param options.fetch replaces the global `fetch`
 * @throws UsageError naming what is missing
 */
export async function findRepository(
  values: Pick<TargetValues, 'repo' | 'url'>,
  env: NodeJS.ProcessEnv,
  {
    needsJob = false,
    needsCommit = false,
    fetch,
  }: { needsJob?: boolean; needsCommit?: boolean; fetch?: Fetch | undefined } = {},
): Promise<{ client: Client; owner: string; repo: string; job: Job }> {
  const { client } = await openService(values, env, fetch)
  const given = values.repo ?? (env.COMMIT_STATUS_REPO || undefined)
  const isGiven = { sha: !needsCommit, repository: given !== undefined }
  const job: Job = given && !needsJob ? {} : await findJob(env, process.cwd(), isGiven)
  const repository = given ?? job.repository
  if (!repository) {
    throw new UsageError(
      job.foreignName === undefined
        ? 'missing repository: give --repo OWNER/NAME or set COMMIT_STATUS_REPO'
        : `"${job.foreignName}" is not OWNER/NAME: give --repo or set COMMIT_STATUS_REPO`,
    )
  }
  const [owner, repo] = splitName(repository)
  return { client, owner, repo, job }
}

/** @throws UsageError unless it is OWNER/NAME */
export function splitName(name: string): [owner: string, repo: string] {
  const [owner, repo, ...more] = name.split('/')
  if (!owner || !repo || more.length > 0) throw new UsageError(`--repo must be OWNER/NAME; got "${name}"`)
  return [owner, repo]
}

/**
 * Determines the service from options and environment.
 *
 * @returns its address, a client, and what opens another one
 * @throws UsageError naming what is missing
 */
export async function openService(
  values: Pick<TargetValues, 'url'>,
  env: NodeJS.ProcessEnv,
  fetch?: Fetch | undefined,
) {
  const baseUrl = values.url ?? env.COMMIT_STATUS_URL
  if (!baseUrl) throw new UsageError('missing address of the service: set COMMIT_STATUS_URL or give --url')
  const open = () => openClient(baseUrl, env, fetch)
  const client = open()
  await useProxy(env, baseUrl)
  return { baseUrl, client, open }
}

/**
 * Determines the commit to report on. Unlike a read, a report always needs a token.
 *
 * @throws UsageError naming what is missing
 */
export async function findReportTarget(
  values: TargetValues,
  env: NodeJS.ProcessEnv,
  fetch?: Fetch,
): Promise<Target> {
  const target = await findTarget(values, env, fetch)
  tokenOf(env)
  return target
}

/** @throws UsageError if there is no token */
export function tokenOf({ COMMIT_STATUS_TOKEN }: NodeJS.ProcessEnv): string {
  const token = COMMIT_STATUS_TOKEN?.trim()
  if (!token) throw new UsageError('missing token: set COMMIT_STATUS_TOKEN')
  return token
}

/**
 * Returns the full id of a commit given by any name that git accepts.
 *
 * @throws UsageError if it is none in this checkout
 */
export function commitNamed(name: string): string {
  if (isFullId(name)) return name
  const sha = resolveCommit(process.cwd(), name)
  if (sha !== undefined) return sha
  throw new UsageError(
    isCheckout(process.cwd())
      ? `"${name}" is not a commit in this checkout; fetch it or give its full id`
      : `"${name}" is not a full commit id, and this folder is not in a git checkout`,
  )
}

/**
 * Returns the milliseconds of `COMMIT_STATUS_TIMEOUT`.
 *
 * @throws UsageError for anything but a duration
 */
export function totalTimeoutOf(env: NodeJS.ProcessEnv): number | undefined {
  const limit = env.COMMIT_STATUS_TIMEOUT
  return limit ? parseDuration(limit, 'COMMIT_STATUS_TIMEOUT') : undefined
}

function openClient(baseUrl: string, env: NodeJS.ProcessEnv, fetch: Fetch | undefined): Client {
  const totalTimeout = totalTimeoutOf(env)
  try {
    return createClient({ baseUrl, token: env.COMMIT_STATUS_TOKEN, totalTimeout, fetch })
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message)
    throw error
  }
}
