import { UsageError } from './usage-error.ts'

type Environment = NodeJS.ProcessEnv

/**
 * Returns the context given by `--context`, or the name of the CI system's job.
 *
 * @throws UsageError when there is neither: with a default, checks would replace each other's
 * results
 */
export function findContext(given: string | undefined, env: Environment): string {
  const context = given ?? jobContext(env)
  if (context) return context
  throw new UsageError(
    'missing context: give --context NAME, a name that no other job reports on the same commit (with the values of a matrix)',
  )
}

/**
 * Returns a context that no other job of the pipeline has, nor the same job for another event,
 * where the CI system documents variables that tell: `test` for a push, `test (tag)`, `test
 * (merge_request_event into main)`.
 *
 * GitHub Actions, Woodpecker, Buildkite, Azure Pipelines and Jenkins give the jobs of a matrix the
 * same variables.
 */
function jobContext(env: Environment): string | undefined {
  const { name, event = 'push', base } = readJob(env)
  // Two child pipelines may each have a job of that name.
  if (!name || event === 'parent_pipeline') return undefined
  if (event === 'push') return name
  return `${name} (${event}${base && /^(?:pull|merge)_/.test(event) ? ` into ${base}` : ''})`
}

function readJob(env: Environment): Record<'name' | 'event' | 'base', string | undefined> {
  const none = { name: undefined, event: undefined, base: undefined }
  if (env.GITLAB_CI) {
    const event = env.CI_COMMIT_TAG ? 'tag' : env.CI_PIPELINE_SOURCE
    return { name: env.CI_JOB_NAME, event, base: env.CI_MERGE_REQUEST_TARGET_BRANCH_NAME }
  }
  if (env.DRONE_STAGE_NAME && env.DRONE_STEP_NAME) {
    const name = `${env.DRONE_STAGE_NAME}/${env.DRONE_STEP_NAME}`
    return { name, event: env.DRONE_BUILD_EVENT, base: env.DRONE_TARGET_BRANCH }
  }
  if (!env.CIRCLE_JOB) return none
  const index = Number(env.CIRCLE_NODE_TOTAL) > 1 ? ` ${env.CIRCLE_NODE_INDEX}` : ''
  return { ...none, name: `${env.CIRCLE_JOB}${index}`, ...(env.CIRCLE_TAG && { event: 'tag' }) }
}
