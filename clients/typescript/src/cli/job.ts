import { readFileSync } from 'node:fs'
import type envCiOf from 'env-ci'
import { checkoutOf, slugOf } from './checkout.ts'

/** What surroundings tell about the job that runs. */
export interface Job {
  /** OWNER/NAME */
  repository?: string | undefined
  sha?: string | undefined
  /** Where the job's log is. */
  targetUrl?: string | undefined
}

type Environment = NodeJS.ProcessEnv

const FULL_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i
const TARGET_URL_BYTES = 2_048

/** Whether this is a full commit id. */
export function isFullId(text: string): boolean {
  return FULL_ID.test(text)
}

/**
 * Repository, commit and job link from the CI system's environment, and what that does not tell from the git checkout.
 * Never fails: what cannot be found, or could not be right, is left out.
 */
export async function findJob(env: Environment, cwd: string): Promise<Job> {
  const ci = await askEnvCi(env, cwd)
  const sha = pick(isFullId, reviewedCommit(env), ci.commit)
  const repository = pick(isRepository, ci.slug, slugOf(env.GIT_URL ?? ''))
  const checkout = sha && repository ? {} : checkoutOf(cwd)
  return {
    sha: sha ?? pick(isFullId, checkout.sha),
    repository: repository ?? pick(isRepository, checkout.repository),
    targetUrl: pick(isLink, ci.jobUrl, ci.buildUrl),
  }
}

/** env-ci reads files that a variable names, and fails where they are missing. */
async function askEnvCi(env: Environment, cwd: string): Promise<Partial<ReturnType<typeof envCiOf>>> {
  try {
    const { default: envCi } = await import('env-ci')
    const found = envCi({ env, cwd })
    // Outside of CI it only looks at the checkout, as is done here.
    return found.name ? found : {}
  } catch {
    return {}
  }
}

/** The commit under review, where the CI system checks out a merge with the target branch that nobody pushed. */
function reviewedCommit(env: Environment): string | undefined {
  if (env.GITHUB_ACTIONS && env.GITHUB_EVENT_PATH) return headOfEvent(env.GITHUB_EVENT_PATH)
  return env.CI_MERGE_REQUEST_SOURCE_BRANCH_SHA || env.SYSTEM_PULLREQUEST_SOURCECOMMITID
}

function headOfEvent(path: string): string | undefined {
  try {
    const sha: unknown = JSON.parse(readFileSync(path, 'utf8'))?.pull_request?.head?.sha
    return typeof sha === 'string' ? sha : undefined
  } catch {
    return undefined
  }
}

function pick(test: (text: string) => boolean, ...candidates: (string | undefined)[]): string | undefined {
  return candidates.find((text) => text !== undefined && test(text))
}

/** env-ci writes `undefined` where a variable is missing. */
function isRepository(slug: string): boolean {
  return /^[\w.-]+\/[\w.-]+$/.test(slug) && !slug.split('/').includes('undefined')
}

/** Whether the service would take it, and nothing in it is `undefined` or a password. */
function isLink(text: string): boolean {
  if (!/^https?:\/\//i.test(text) || /[\s\p{Cc}]/u.test(text) || !URL.canParse(text)) return false
  const { username, password } = new URL(text)
  const isWhole = !text.split(/[/?&=#]/).includes('undefined')
  return isWhole && !username && !password && Buffer.byteLength(text) <= TARGET_URL_BYTES
}
