import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'

export const recipes = resolve(import.meta.dirname, '..')
export const read = (name: string) => readFileSync(join(recipes, name), 'utf8')

/** How the jobs before the closing one have ended. */
export type Result = 'success' | 'failure' | 'cancelled'

/** An attempt of a pipeline, by the clock of the CI system in seconds since 1970. */
interface Attempt {
  pipeline: number
  began: number
  /** From 1. */
  attempt: number
  attemptBegan: number
}

/**
 * What a system does with a recipe. `SHA` stands for the commit, `MERGE` for its merge with another
 * branch.
 */
export interface System {
  /** The context of the closing job of the first event, which rules require. */
  required: string
  /** The shell script of the job that tests. */
  test: string
  /** The shell script of the closing job. */
  close: string
  /**
   * The variables of the closing job by how the other has ended; undefined where the system starts
   * none.
   */
  closing(result: Result, env: Record<string, string>): Record<string, string> | undefined
  /**
   * What the system documents for each event that it has, a pull request first: the job's
   * variables.
   */
  events: Record<string, Record<string, string>>
  /** The variables of every event. */
  always: Record<string, string>
  /**
   * The variables of an attempt of a pipeline. Both began so many seconds after 1970. Missing where the
   * system has none.
   */
  pipeline?(attempt: Attempt): Record<string, string>
  /** Of what the recipe says when it began. */
  began?: 'pipeline' | 'attempt'
  /** Whether bash runs a file, and a cancelled job has a signal for that bash alone, not for all. */
  signalsFirst?: boolean
}

const github = parse(read('github-actions.yml'))
const gitlab = parse(read('gitlab-ci.yml'))
const [woodpeckerTest, woodpeckerClose] = parse(read('woodpecker.yml')).steps
const [droneTest, droneClose] = parse(read('drone.yml')).steps
const [buildkiteTest, buildkiteClose] = parse(read('buildkite.yml')).steps
const [tekton] = parse(read('tekton-task.yaml')).spec.steps
const [, jenkinsTest, jenkinsReport] =
  /\n +sh '(make test)'\n[\s\S]*catchError\(buildResult: 'SUCCESS', stageResult: 'SUCCESS', catchInterruptions: false\) \{[\s\S]*\n +sh '(.*)'\n/.exec(
    read('Jenkinsfile'),
  ) ?? []

const githubEvents: Record<string, { context: EventValues; sha: string }> = {
  'pull request into main': {
    context: { event_name: 'pull_request', base_ref: 'main', ref_name: '7/merge' },
    sha: 'MERGE',
  },
  'push to main': { context: { event_name: 'push', ref_name: 'main' }, sha: 'SHA' },
  'push to topic': { context: { event_name: 'push', ref_name: 'topic' }, sha: 'SHA' },
  'push of tag v1': { context: { event_name: 'push', ref_name: 'v1' }, sha: 'SHA' },
  'pull request into release': {
    context: { event_name: 'pull_request', base_ref: 'release', ref_name: '8/merge' },
    sha: 'MERGE',
  },
  'merge queue of main': {
    context: {
      event_name: 'merge_group',
      ref_name: 'gh-readonly-queue/main/pr-7-0123',
      event: { merge_group: { base_ref: 'refs/heads/main' } },
    },
    sha: 'SHA',
  },
}

/** Values of an event by their names. */
interface EventValues {
  [name: string]: string | number | boolean | null | EventValues
}

/** Replaces `${{ github.a || github.b }}` as GitHub Actions does. */
function evaluate(text: string, context: EventValues): string {
  return text.replace(/\$\{\{ (.+?) \}\}/g, (_match, expression: string) => {
    const values = expression.split(' || ').map((path) =>
      path
        .split('.')
        .slice(1)
        .reduce<EventValues[string] | undefined>(
          (value, name) => (typeof value === 'object' ? value?.[name] : undefined),
          context,
        ),
    )
    return String(values.find(Boolean) ?? '')
  })
}

/** A time in RFC 3339. */
const timeOf = (seconds: number) => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')

/** Returns the script of a job with several steps or lines. */
const lines = (texts: string[]) => texts.join('\n')
const runLines = (steps: { run?: string }[]) => lines(steps.flatMap(({ run = [] }) => run))

export const systems: Record<string, System> = {
  'github-actions.yml': {
    required: 'ci/all (pull_request main)',
    test: runLines(github.jobs.test.steps),
    close: runLines(github.jobs.ci.steps),
    // The REST API has the time of an attempt as `run_started_at`.
    pipeline: ({ pipeline, attempt, attemptBegan }) => ({
      GITHUB_SERVER_URL: 'https://github.example.org',
      GITHUB_RUN_ID: `${pipeline}`,
      GITHUB_RUN_ATTEMPT: `${attempt}`,
      [`STARTED_${attempt}`]: timeOf(attemptBegan),
    }),
    began: 'attempt',
    signalsFirst: true,
    closing: (result) => ({ RESULTS: `success ${result}` }),
    events: Object.fromEntries(
      Object.entries(githubEvents).map(([name, { context, sha }]) => [
        name,
        {
          BASE: evaluate(github.env.BASE, context),
          GITHUB_EVENT_NAME: String(context.event_name),
          GITHUB_BASE_REF: String(context.base_ref ?? ''),
          GITHUB_REF_NAME: String(context.ref_name),
          GITHUB_SHA: sha,
        },
      ]),
    ),
    always: { GITHUB_ACTIONS: 'true', GITHUB_JOB: 'test', GITHUB_REPOSITORY: 'acme/rocket' },
  },
  'gitlab-ci.yml': {
    required: 'ci/all (merge_request_event main)',
    test: lines(gitlab.test.script),
    close: lines(gitlab.ci.script),
    pipeline: ({ pipeline, began, attempt }) => ({
      CI_PIPELINE_ID: `${pipeline}`,
      CI_PIPELINE_CREATED_AT: timeOf(began),
      CI_JOB_ID: `${pipeline * 100 + attempt}`,
    }),
    began: 'pipeline',
    closing: (result) =>
      result === 'cancelled' ? undefined : { CI_JOB_NAME: result === 'success' ? 'ci' : 'ci failed' },
    events: {
      'merge request into main': {
        CI_PIPELINE_SOURCE: 'merge_request_event',
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main',
        CI_COMMIT_REF_NAME: 'topic',
        CI_COMMIT_SHA: 'SHA',
      },
      push: { CI_PIPELINE_SOURCE: 'push', CI_COMMIT_REF_NAME: 'main', CI_COMMIT_SHA: 'SHA' },
      tag: {
        CI_PIPELINE_SOURCE: 'push',
        CI_COMMIT_TAG: 'v1',
        CI_COMMIT_REF_NAME: 'v1',
        CI_COMMIT_SHA: 'SHA',
      },
      schedule: { CI_PIPELINE_SOURCE: 'schedule', CI_COMMIT_REF_NAME: 'main', CI_COMMIT_SHA: 'SHA' },
      'merged result into release': {
        CI_PIPELINE_SOURCE: 'merge_request_event',
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'release',
        CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: 'SHA',
        CI_COMMIT_REF_NAME: 'topic',
        CI_COMMIT_SHA: 'MERGE',
      },
    },
    always: { GITLAB_CI: 'true', CI_JOB_NAME: 'test', CI_PROJECT_PATH: 'acme/rocket' },
  },
  Jenkinsfile: {
    required: 'ci/all (into main)',
    // What catchError encloses does not change the result of a build.
    test: `(${jenkinsReport}) || true\n${jenkinsTest}`,
    close: `(${jenkinsReport}) || true`,
    // What runs again is another build.
    pipeline: ({ pipeline, attempt, attemptBegan }) => ({
      BUILD_TAG: `jenkins-rocket-${pipeline + attempt}`,
      BEGAN: `${attemptBegan}`,
    }),
    began: 'attempt',
    closing: (result) => ({ STATE: result === 'cancelled' ? 'error' : result }),
    events: {
      'pull request into main': {
        BRANCH_NAME: 'PR-7',
        CHANGE_ID: '7',
        CHANGE_TARGET: 'main',
        GIT_COMMIT: 'SHA',
      },
      'branch main': { BRANCH_NAME: 'main', GIT_COMMIT: 'SHA' },
      'tag v1': { BRANCH_NAME: 'v1', TAG_NAME: 'v1', GIT_COMMIT: 'SHA' },
      'pull request into release': {
        BRANCH_NAME: 'PR-8',
        CHANGE_ID: '8',
        CHANGE_TARGET: 'release',
        GIT_COMMIT: 'SHA',
      },
    },
    always: {
      STATE: 'pending',
      JENKINS_URL: 'https://j',
      GIT_URL: 'https://git.example.org/acme/rocket.git',
    },
  },
  'woodpecker.yml': {
    required: 'ci/all (pull_request main)',
    test: lines(woodpeckerTest.commands),
    close: lines(woodpeckerClose.commands),
    // What runs again is another pipeline.
    pipeline: ({ pipeline, attempt, attemptBegan }) => ({
      CI_PIPELINE_NUMBER: `${pipeline + attempt}`,
      CI_PIPELINE_CREATED: `${attemptBegan}`,
    }),
    began: 'attempt',
    closing: (result) =>
      result === 'cancelled' ? undefined : { CI_STEP_NAME: result === 'success' ? 'ci' : 'ci failed' },
    events: {
      'pull request into main': { CI_PIPELINE_EVENT: 'pull_request', CI_COMMIT_BRANCH: 'main' },
      'push to main': { CI_PIPELINE_EVENT: 'push', CI_COMMIT_BRANCH: 'main' },
      'pull request into release': { CI_PIPELINE_EVENT: 'pull_request', CI_COMMIT_BRANCH: 'release' },
      manual: { CI_PIPELINE_EVENT: 'manual', CI_COMMIT_BRANCH: 'main' },
    },
    always: { CI: 'woodpecker', CI_REPO: 'acme/rocket', CI_COMMIT_SHA: 'SHA', CI_STEP_NAME: 'test' },
  },
  'drone.yml': {
    required: 'ci/all (pull_request main)',
    test: lines(droneTest.commands),
    close: lines(droneClose.commands),
    // What runs again is another build.
    pipeline: ({ pipeline, attempt, attemptBegan }) => ({
      DRONE_BUILD_NUMBER: `${pipeline + attempt}`,
      DRONE_BUILD_CREATED: `${attemptBegan}`,
    }),
    began: 'attempt',
    closing: (result) => (result === 'cancelled' ? undefined : { DRONE_BUILD_STATUS: result }),
    events: {
      'pull request into main': { DRONE_BUILD_EVENT: 'pull_request', DRONE_TARGET_BRANCH: 'main' },
      'push to main': { DRONE_BUILD_EVENT: 'push', DRONE_TARGET_BRANCH: 'main' },
      'pull request into release': { DRONE_BUILD_EVENT: 'pull_request', DRONE_TARGET_BRANCH: 'release' },
      tag: { DRONE_BUILD_EVENT: 'tag', DRONE_TARGET_BRANCH: 'main' },
    },
    always: {
      DRONE: 'true',
      DRONE_REPO: 'acme/rocket',
      DRONE_COMMIT_SHA: 'SHA',
      DRONE_STAGE_NAME: parse(read('drone.yml')).name,
      DRONE_STEP_NAME: droneTest.name,
    },
  },
  'buildkite.yml': {
    required: 'ci/all (into main)',
    test: lines(buildkiteTest.command).replaceAll('$$', '$'),
    close: lines(buildkiteClose.command).replaceAll('$$', '$'),
    pipeline: ({ pipeline, attempt }) => ({
      BUILDKITE_BUILD_ID: `${pipeline}`,
      BUILDKITE_RETRY_COUNT: `${attempt - 1}`,
    }),
    closing: (result) =>
      result === 'cancelled' ? undefined : { OUTCOME: result === 'success' ? 'passed' : 'hard_failed' },
    events: {
      'pull request into main': {
        BUILDKITE_BRANCH: 'topic',
        BUILDKITE_PULL_REQUEST: '7',
        BUILDKITE_PULL_REQUEST_BASE_BRANCH: 'main',
      },
      push: { BUILDKITE_BRANCH: 'main', BUILDKITE_PULL_REQUEST: 'false' },
      tag: { BUILDKITE_BRANCH: 'v1', BUILDKITE_TAG: 'v1', BUILDKITE_PULL_REQUEST: 'false' },
      'pull request into release': {
        BUILDKITE_BRANCH: 'topic',
        BUILDKITE_PULL_REQUEST: '8',
        BUILDKITE_PULL_REQUEST_BASE_BRANCH: 'release',
      },
    },
    always: {
      BUILDKITE: 'true',
      BUILDKITE_REPO: 'git@git.example.org:acme/rocket.git',
      BUILDKITE_COMMIT: 'SHA',
    },
  },
  'tekton-task.yaml': {
    required: 'ci/all (push)',
    test: tekton.script,
    close: tekton.script,
    closing(result, { CONTEXT = '' }) {
      const [, command = ''] = /command, value: '(.+)'/.exec(read('tekton-task.yaml')) ?? []
      const status = result === 'success' ? 'Succeeded' : 'Failed'
      if (result === 'cancelled') return undefined
      return { CONTEXT: CONTEXT.replace('test', 'all'), COMMAND: command.replace('$(tasks.status)', status) }
    },
    events: { 'a pipeline': { CONTEXT: 'ci/test (push)' }, 'another one': { CONTEXT: 'ci/test (merge)' } },
    always: { COMMIT_STATUS_REPO: 'acme/rocket', SHA: 'SHA', COMMAND: 'make test' },
  },
}
