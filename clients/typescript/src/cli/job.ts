import { readFileSync } from 'node:fs'
import type envCiOf from 'env-ci'
import { operations } from '../generated/operations.ts'
import { originOf, resolveCommit, slugOf } from './checkout.ts'

/** What the CI system and the checkout say about the running job. */
export interface Job {
  /** OWNER/NAME */
  repository?: string | undefined
  sha?: string | undefined
  /** Link to the job's log. */
  targetUrl?: string | undefined
  /**
   * The CI system's name of the repository, where that is not OWNER/NAME: `group/subgroup/name` of
   * GitLab.
   */
  foreignName?: string | undefined
  /**
   * The event, where the job does not check out the commit that it is about: `sha` is then missing.
   */
  foreignEvent?: string | undefined
}

type Environment = NodeJS.ProcessEnv

const FULL_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i
/**
 * Events of GitHub Actions whose `GITHUB_SHA`, which is checked out, is the tip of a branch that
 * the event is not about.
 */
const FOREIGN_EVENTS = ['pull_request_target', 'workflow_run', 'issue_comment', 'check_run', 'check_suite']
/** The variables by which env-ci tells CI systems apart. Without any of them it knows none. */
export const CI_VARIABLES = [
  'APPVEYOR',
  'BUILD_BUILDURI',
  'bamboo_agentId',
  'BITBUCKET_BUILD_NUMBER',
  'BITRISE_IO',
  'BUDDY_WORKSPACE_ID',
  'BUILDKITE',
  'CIRCLECI',
  'CIRRUS_CI',
  'CF_PAGES',
  'CODEBUILD_BUILD_ID',
  'CF_BUILD_ID',
  'CI_NAME',
  'DRONE',
  'GITHUB_ACTIONS',
  'GITLAB_CI',
  'JENKINS_URL',
  'NETLIFY',
  'DISTELLI_APPNAME',
  'SAILCI',
  'SCREWDRIVER',
  'SCRUTINIZER',
  'SEMAPHORE',
  'SHIPPABLE',
  'TEAMCITY_VERSION',
  'TRAVIS',
  'VELA',
  'VERCEL',
  'NOW_GITHUB_DEPLOYMENT',
  'WERCKER_MAIN_PIPELINE_STARTED',
  'CI',
  'JB_SPACE_EXECUTION_NUMBER',
]
const TARGET_URL_BYTES = operations.reportStatus.maxLength.target_url

/** Returns whether this is a full commit id. */
export function isFullId(text: string): boolean {
  return FULL_ID.test(text)
}

/**
 * Finds repository, commit and job link in the CI system's environment, and what that lacks in the
 * git checkout. Never fails: what cannot be found or is malformed is left out.
 *
 * @param isGiven what the checkout is not asked for, since each question starts git
 */
export async function findJob(
  env: Environment,
  cwd: string,
  isGiven: { sha?: boolean; repository?: boolean } = {},
): Promise<Job> {
  const ci = await readEnvCi(env, cwd)
  const foreignEvent = FOREIGN_EVENTS.find((event) => env.GITHUB_ACTIONS && env.GITHUB_EVENT_NAME === event)
  const sha = pick(isFullId, reviewedCommit(env), ci.commit)
  const addresses = [env.GIT_URL, env.BUILD_REPOSITORY_URI].map((address) => slugOf(address ?? ''))
  const repository = pick(isRepository, ci.slug, ...addresses)
  const head = sha || foreignEvent || isGiven.sha ? undefined : resolveCommit(cwd, 'HEAD')
  const origin = repository || isGiven.repository ? undefined : originOf(cwd)
  return {
    sha: foreignEvent ? undefined : (sha ?? head),
    repository: repository ?? pick(isRepository, origin),
    targetUrl: pick(isLink, forgejoRun(env), ci.jobUrl, ci.buildUrl, azureBuild(env)),
    ...(ci.slug && !repository && isComplete(ci.slug) && { foreignName: ci.slug }),
    ...(foreignEvent && { foreignEvent }),
  }
}

/**
 * Reads what env-ci finds. It fails where a variable names a file that is missing. Outside of CI it
 * would start git up to three times and find what `findJob` finds.
 */
async function readEnvCi(env: Environment, cwd: string): Promise<Partial<ReturnType<typeof envCiOf>>> {
  if (!CI_VARIABLES.some((name) => env[name])) return {}
  try {
    const { default: envCi } = await import('env-ci')
    return envCi({ env, cwd })
  } catch {
    return {}
  }
}

/**
 * Returns the commit under review where the CI system checks out a merge with the target branch
 * that was never pushed.
 */
function reviewedCommit(env: Environment): string | undefined {
  if (env.GITHUB_ACTIONS && env.GITHUB_EVENT_PATH) return headOfEvent(env.GITHUB_EVENT_PATH)
  return (
    env.CI_MERGE_REQUEST_SOURCE_BRANCH_SHA ||
    env.SYSTEM_PULLREQUEST_SOURCECOMMITID ||
    env.TRAVIS_PULL_REQUEST_SHA
  )
}

/**
 * Returns the link to the run on Forgejo or Gitea, whose runners set the variables of GitHub
 * Actions, but whose pages are named by the number of the run, not by its id.
 */
function forgejoRun(env: Environment): string | undefined {
  if (!env.FORGEJO_ACTIONS && !env.GITEA_ACTIONS) return undefined
  return `${env.GITHUB_SERVER_URL}/${env.GITHUB_REPOSITORY}/actions/runs/${env.GITHUB_RUN_NUMBER}`
}

/** Returns the build link, which env-ci does not provide for Azure Pipelines. */
function azureBuild({
  SYSTEM_COLLECTIONURI,
  SYSTEM_TEAMPROJECT,
  BUILD_BUILDID,
}: Environment): string | undefined {
  if (!SYSTEM_COLLECTIONURI || !SYSTEM_TEAMPROJECT || !BUILD_BUILDID) return undefined
  const project = `${SYSTEM_COLLECTIONURI.replace(/\/?$/, '/')}${encodeURIComponent(SYSTEM_TEAMPROJECT)}`
  return `${project}/_build/results?buildId=${BUILD_BUILDID}`
}

function headOfEvent(path: string): string | undefined {
  try {
    const event: { pull_request?: { head?: { sha?: unknown } } } | null = JSON.parse(
      readFileSync(path, 'utf8'),
    )
    const sha = event?.pull_request?.head?.sha
    return typeof sha === 'string' ? sha : undefined
  } catch {
    return undefined
  }
}

function pick(test: (text: string) => boolean, ...candidates: (string | undefined)[]): string | undefined {
  return candidates.find((text) => text !== undefined && test(text))
}

function isRepository(slug: string): boolean {
  return /^[\w.-]+\/[\w.-]+$/.test(slug) && isComplete(slug)
}

/** env-ci writes `undefined` where a variable is missing. */
function isComplete(slug: string): boolean {
  return !slug.split('/').includes('undefined')
}

/**
 * Returns whether the service would accept the link, and no part of it is `undefined` or a
 * password.
 */
function isLink(text: string): boolean {
  if (!/^https?:\/\//i.test(text) || /[\s\p{Cc}]/u.test(text) || !URL.canParse(text)) return false
  const { username, password } = new URL(text)
  const isWhole = !text.split(/[/?&=#]/).includes('undefined')
  return isWhole && !username && !password && Buffer.byteLength(text) <= TARGET_URL_BYTES
}
