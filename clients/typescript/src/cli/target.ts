import { type Client, createClient } from '../client.ts'
import { parseDuration } from './duration.ts'
import { findJob, type Job } from './job.ts'
import { UsageError } from './usage-error.ts'

/** Options that every command takes. */
export const targetOptions = {
  repo: { type: 'string' },
  sha: { type: 'string' },
  url: { type: 'string' },
} as const

export interface TargetValues {
  repo?: string | undefined
  sha?: string | undefined
  url?: string | undefined
  'target-url'?: string | undefined
}

/** The commit that a command is about, and the client that reaches it. */
export interface Target {
  client: Client
  owner: string
  repo: string
  sha: string
  /** Where to read more; empty for no link. */
  targetUrl: string
}

/**
 * Puts together what options and environment tell.
 *
 * @throws UsageError naming what is missing.
 */
export async function findTarget(values: TargetValues, env: NodeJS.ProcessEnv): Promise<Target> {
  const baseUrl = values.url ?? env.COMMIT_STATUS_URL
  if (!baseUrl) throw new UsageError('where is the service? Set COMMIT_STATUS_URL, or give --url')
  const client = openClient(baseUrl, env)
  const isComplete = values.repo && values.sha && values['target-url'] !== undefined
  const job: Job = isComplete ? {} : await findJob(env, process.cwd())
  const repository = values.repo ?? job.repository
  if (!repository) throw new UsageError('which repository? Give --repo OWNER/NAME')
  const [owner, repo, ...more] = repository.split('/')
  if (!owner || !repo || more.length > 0) throw new UsageError(`--repo is OWNER/NAME, not "${repository}"`)
  const sha = values.sha ?? job.sha
  if (!sha) throw new UsageError('which commit? Give --sha with its full id')
  return { client, owner, repo, sha, targetUrl: values['target-url'] ?? job.targetUrl ?? '' }
}

function openClient(baseUrl: string, env: NodeJS.ProcessEnv): Client {
  const patience = env.COMMIT_STATUS_TIMEOUT
  const totalTimeout = patience ? parseDuration(patience, 'COMMIT_STATUS_TIMEOUT') : undefined
  try {
    return createClient({ baseUrl, token: env.COMMIT_STATUS_TOKEN, totalTimeout })
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message)
    throw error
  }
}
