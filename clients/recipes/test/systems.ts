import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { git } from '../../../test/helpers/git.ts'
import { npmEnvironment } from '../../typescript/test/helpers/package.ts'
import type { Service } from '../../typescript/test/helpers/service.ts'

export const recipes = resolve(import.meta.dirname, '..')
export const read = (name: string) => readFileSync(join(recipes, name), 'utf8')
const run = promisify(execFile)

/** What a system does with a recipe. `SHA` stands for the commit, `MERGE` for its merge with another branch. */
interface System {
  /** The shell scripts of the job, each run on its own. */
  steps(): string[]
  /** What the system documents for each event that it has: the job's variables. */
  events: Record<string, Record<string, string>>
  /** The variables of every event. */
  always: Record<string, string>
}

const github = parse(read('github-actions.yml'))
const githubEvents: Record<string, { context: EventValues; sha: string }> = {
  'push to main': { context: { event_name: 'push', ref_name: 'main' }, sha: 'SHA' },
  'push to topic': { context: { event_name: 'push', ref_name: 'topic' }, sha: 'SHA' },
  'push of tag v1': { context: { event_name: 'push', ref_name: 'v1' }, sha: 'SHA' },
  'pull request into main': {
    context: { event_name: 'pull_request', base_ref: 'main', ref_name: '7/merge' },
    sha: 'MERGE',
  },
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

export const systems: Record<string, System> = {
  'github-actions.yml': {
    steps: () => github.jobs.test.steps.flatMap(({ run = [] }) => run),
    events: Object.fromEntries(
      Object.entries(githubEvents).map(([name, { context, sha }]) => [
        name,
        {
          CONTEXT: evaluate(github.jobs.test.env.CONTEXT, context),
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
    steps: () => parse(read('gitlab-ci.yml')).test.script,
    events: {
      push: { CI_PIPELINE_SOURCE: 'push', CI_COMMIT_BRANCH: 'main', CI_COMMIT_SHA: 'SHA' },
      tag: { CI_PIPELINE_SOURCE: 'push', CI_COMMIT_TAG: 'v1', CI_COMMIT_SHA: 'SHA' },
      schedule: { CI_PIPELINE_SOURCE: 'schedule', CI_COMMIT_BRANCH: 'main', CI_COMMIT_SHA: 'SHA' },
      'merge request into main': {
        CI_PIPELINE_SOURCE: 'merge_request_event',
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main',
        CI_COMMIT_SHA: 'SHA',
      },
      'merged result into release': {
        CI_PIPELINE_SOURCE: 'merge_request_event',
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'release',
        CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: 'SHA',
        CI_COMMIT_SHA: 'MERGE',
      },
    },
    always: { GITLAB_CI: 'true', CI_JOB_NAME: 'test', CI_PROJECT_PATH: 'acme/rocket' },
  },
  Jenkinsfile: {
    steps: () => [...read('Jenkinsfile').matchAll(/^ *sh '(.*)'$/gm)].map(([, step = '']) => step),
    events: {
      'branch main': { BRANCH_NAME: 'main', GIT_COMMIT: 'SHA' },
      'tag v1': { BRANCH_NAME: 'v1', TAG_NAME: 'v1', GIT_COMMIT: 'SHA' },
      'pull request into main': {
        BRANCH_NAME: 'PR-7',
        CHANGE_ID: '7',
        CHANGE_TARGET: 'main',
        GIT_COMMIT: 'SHA',
      },
      'pull request into release': {
        BRANCH_NAME: 'PR-8',
        CHANGE_ID: '8',
        CHANGE_TARGET: 'release',
        GIT_COMMIT: 'SHA',
      },
    },
    always: { JENKINS_URL: 'https://j', GIT_URL: 'https://git.example.org/acme/rocket.git' },
  },
  'woodpecker.yml': {
    steps: () => [parse(read('woodpecker.yml')).steps[0].commands.join('\n')],
    events: {
      'push to main': { CI_PIPELINE_EVENT: 'push', CI_COMMIT_BRANCH: 'main' },
      'pull request into main': { CI_PIPELINE_EVENT: 'pull_request', CI_COMMIT_BRANCH: 'main' },
      'pull request into release': { CI_PIPELINE_EVENT: 'pull_request', CI_COMMIT_BRANCH: 'release' },
      manual: { CI_PIPELINE_EVENT: 'manual', CI_COMMIT_BRANCH: 'main' },
    },
    always: { CI: 'woodpecker', CI_REPO: 'acme/rocket', CI_COMMIT_SHA: 'SHA', CI_STEP_NAME: 'test' },
  },
  'drone.yml': {
    steps: () => [parse(read('drone.yml')).steps[0].commands.join('\n')],
    events: {
      'push to main': { DRONE_BUILD_EVENT: 'push', DRONE_TARGET_BRANCH: 'main' },
      'pull request into main': { DRONE_BUILD_EVENT: 'pull_request', DRONE_TARGET_BRANCH: 'main' },
      'pull request into release': { DRONE_BUILD_EVENT: 'pull_request', DRONE_TARGET_BRANCH: 'release' },
      tag: { DRONE_BUILD_EVENT: 'tag', DRONE_TARGET_BRANCH: 'main' },
    },
    always: {
      DRONE: 'true',
      DRONE_REPO: 'acme/rocket',
      DRONE_COMMIT_SHA: 'SHA',
      DRONE_STAGE_NAME: parse(read('drone.yml')).name,
      DRONE_STEP_NAME: parse(read('drone.yml')).steps[0].name,
    },
  },
  'buildkite.yml': {
    steps: () => [parse(read('buildkite.yml')).steps[0].command.join('\n').replaceAll('$$', '$')],
    events: {
      push: { BUILDKITE_BRANCH: 'main', BUILDKITE_PULL_REQUEST: 'false' },
      tag: { BUILDKITE_BRANCH: 'v1', BUILDKITE_TAG: 'v1', BUILDKITE_PULL_REQUEST: 'false' },
      'pull request into main': {
        BUILDKITE_BRANCH: 'topic',
        BUILDKITE_PULL_REQUEST: '7',
        BUILDKITE_PULL_REQUEST_BASE_BRANCH: 'main',
      },
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
    steps: () => parse(read('tekton-task.yaml')).spec.steps.map(({ script }: { script: string }) => script),
    events: { 'a pipeline': { CONTEXT: 'ci/test (push)' }, 'another one': { CONTEXT: 'ci/test (merge)' } },
    always: { COMMIT_STATUS_REPO: 'acme/rocket', SHA: 'SHA', COMMAND: 'make test' },
  },
}

/** Returns the variables of a job of an event, about the service's commit. */
export function jobEnvironment(name: string, event: string, { commit }: Service): Record<string, string> {
  const { always, events }: Pick<System, 'always' | 'events'> = systems[name] ?? { always: {}, events: {} }
  const entries = Object.entries({ ...always, ...events[event] })
  return Object.fromEntries(entries.map(([name, value]) => [name, value === 'SHA' ? commit.sha : value]))
}

/** Clones the service's repository, with a Makefile. */
export function checkout(t: Test, { path }: Service): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'recipe-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  git(folder, 'clone', '--quiet', path, '.')
  git(folder, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  writeFileSync(join(folder, 'Makefile'), 'test:\n\t@echo 412 tests passed\n')
  return folder
}

/** Runs the steps of a job in a checkout as its CI system does, each in a shell, and returns what they print. */
export async function runSteps(cwd: string, service: Service, steps: string[], env: Record<string, string>) {
  const outputs: string[] = []
  git(cwd, 'checkout', '--quiet', '--detach', service.commit.sha)
  if (Object.values(env).includes('MERGE')) {
    const base = git(cwd, 'commit-tree', '-m', 'base', 'HEAD^{tree}')
    git(
      cwd,
      'checkout',
      '--quiet',
      git(cwd, 'commit-tree', '-p', base, '-p', 'HEAD', '-m', 'merge', 'HEAD^{tree}'),
    )
  }
  const merge = git(cwd, 'rev-parse', 'HEAD')
  const variables = Object.entries(env).map(([name, value]) => [name, value === 'MERGE' ? merge : value])
  for (const step of steps) {
    // Files of one job must not be those of another one that runs at the same time.
    const text = step.replaceAll('/tmp/commit-status', join(cwd, 'commit-status'))
    const { stdout, stderr } = await run('sh', ['-ec', text], {
      cwd,
      env: { ...environment(service), RUNNER_TEMP: cwd, ...Object.fromEntries(variables) },
    })
    outputs.push(stderr.replaceAll(/^ .*\n/gm, ''), stdout)
  }
  return outputs.join('')
}

/** Returns the environment of a job with a token of the service. */
export function environment({ server, token }: Service): Record<string, string> {
  return { ...npmEnvironment(), COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
}
