import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { git } from '../../../test/helpers/git.ts'
import { startSmallProcesses } from '../../../test/helpers/small-process.ts'
import { npmEnvironment } from '../../typescript/test/helpers/package.ts'
import type { Service } from '../../typescript/test/helpers/service.ts'

export const recipes = resolve(import.meta.dirname, '..')
export const read = (name: string) => readFileSync(join(recipes, name), 'utf8')

/** How the jobs before the closing one have ended. */
type Result = 'success' | 'failure' | 'cancelled'

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
interface System {
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

/**
 * Clones the service's repository, with a Makefile whose tests are `$CHECK`, and with the committed
 * client.
 */
export function checkout(t: Test, { path }: Service): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'recipe-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const clone = clones.get(path) ?? createClone(path)
  clones.set(path, clone)
  cpSync(clone, join(folder, '.git'), { recursive: true })
  writeFileSync(join(folder, 'Makefile'), 'test:\n\t@$(CHECK)\n')
  mkdirSync(join(folder, '.ci'))
  cpSync(resolve(recipes, '../shell/commit-status'), join(folder, '.ci/commit-status'))
  const agent =
    '#!/bin/sh\ncase "$1 $2" in step*) echo "$OUTCOME" ;; *) printf %s "$SECRET" ; test -n "$SECRET" ;; esac\n'
  writeFileSync(join(folder, '.ci/buildkite-agent'), agent, { mode: 0o755 })
  // Answers for the attempts of the run of which the job is told. It prints the body of an error, as the real one does.
  const gh = `#!/bin/sh
case "$*" in *"/runs/$GITHUB_RUN_ID/attempts/"*" --jq .run_started_at") ;; *) exit 1 ;; esac
eval began="\\$STARTED_$GITHUB_RUN_ATTEMPT"
[ -n "$began" ] || { echo '{"message":"API rate limit exceeded"}'; exit 1; }
echo "$began"
`
  writeFileSync(join(folder, '.ci/gh'), gh, { mode: 0o755 })
  return folder
}

/** The `.git` of a clone by the repository: to copy it takes less time than to clone again. */
const clones = new Map<string, string>()

function createClone(path: string): string {
  // The end of the run removes it.
  const folder = mkdtempSync(join(tmpdir(), 'clone-'))
  git(folder, 'clone', '--quiet', '--no-checkout', path, '.')
  git(folder, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  return join(folder, '.git')
}

/** Puts the command line into a folder of PATH, as an image does that has it installed. */
export function install(folder: string): void {
  const cli = resolve(recipes, '../typescript/src/cli/main.ts')
  const program = `#!/bin/sh\nexec ${process.execPath} ${cli} "$@"\n`
  writeFileSync(join(folder, 'commit-status'), program, { mode: 0o755 })
}

interface JobResult {
  /** The exit code, or the signal that killed the job's shell. */
  code: number | string | null
  stdout: string
  stderr: string
}

/** What the run of a recipe differs in. */
interface RunOptions {
  /** What `make test` runs. It prints `ready` before it is cancelled. */
  check: string
  /** Sends SIGTERM to the processes of the job, as the CI system does. */
  cancel?: boolean
  /** How the job that tests ends, if the closing one is not to wait for it. */
  assumed?: Result
  /** Whether the closing job alone runs, after the assumed result. */
  onlyClose?: boolean
  /** Variables in place of others. */
  env?: Record<string, string | undefined>
}

/** Pipelines that have run. */
let pipelines = 0

/** Runs the job of a recipe that tests, then the closing one, and returns how they ended. */
export async function runRecipe(
  cwd: string,
  service: Service,
  name: string,
  event: string,
  { check, cancel = false, assumed, onlyClose = false, env = {} }: RunOptions,
): Promise<{ test: JobResult; close?: JobResult }> {
  const system = systems[name]
  if (system === undefined) throw new Error(`no system ${name}`)
  const now = Math.floor(Date.now() / 1_000)
  pipelines += 1
  const variables: Record<string, string> = {
    ...system.always,
    ...system.events[event],
    ...system.pipeline?.({ pipeline: pipelines, began: now, attempt: 1, attemptBegan: now }),
  }
  const ids: Record<string, string> = { SHA: service.commit.sha }
  if (Object.values(variables).includes('MERGE')) ids.MERGE = mergeIn(cwd, service.commit.sha)
  checkOut(cwd, ids.MERGE ?? service.commit.sha)
  const found = Object.fromEntries(
    Object.entries(variables).map(([key, value]) => [key, ids[value] ?? value]),
  )
  const job = (text: string, more: Record<string, string>, cancel: boolean) => {
    const { COMMIT_STATUS_TOKEN = '', ...own } = environment(service)
    const secret = 'COMMIT_STATUS_TOKEN' in env ? (env.COMMIT_STATUS_TOKEN ?? '') : COMMIT_STATUS_TOKEN
    const all = { ...own, COMMIT_STATUS_TOKEN, SECRET: secret, CHECK: check, ...found, ...more, ...env }
    const variables = { ...all, PATH: `${join(cwd, '.ci')}:${own.PATH}` }
    return cancel ? cancelJob(cwd, text, variables, system) : runJob(cwd, text, variables)
  }
  const skipped = { code: 0, stdout: '', stderr: '' }
  const tested = onlyClose ? Promise.resolve(skipped) : job(system.test, {}, cancel)
  const passed = assumed ? assumed === 'success' : (await tested).code === 0
  const result = cancel ? 'cancelled' : passed ? 'success' : 'failure'
  const closing = system.closing(result, found)
  const [test, close] = await Promise.all([tested, closing && job(system.close, closing, false)])
  return { test, ...(close && { close }) }
}

/** The commit that each folder is at. Asking git each time takes as long as a job of a recipe. */
const checkedOut = new Map<string, string>()

function checkOut(folder: string, sha: string): void {
  if (checkedOut.get(folder) !== sha) git(folder, 'checkout', '--quiet', '--detach', sha)
  checkedOut.set(folder, sha)
}

const merges = new Map<string, string>()

/** Returns the merge of a commit with another branch, the same for each call with a folder. */
function mergeIn(folder: string, sha: string): string {
  const create = (...parents: string[]) => {
    const args = parents.flatMap((parent) => ['-p', parent])
    return git(folder, 'commit-tree', ...args, '-m', 'merge', `${sha}^{tree}`)
  }
  const merge = merges.get(folder) ?? create(create(), sha)
  merges.set(folder, merge)
  return merge
}

/** Runs a job to its end, as the leader of a session. */
async function runJob(
  cwd: string,
  text: string,
  env: Record<string, string | undefined>,
): Promise<JobResult> {
  runSmall ??= startSmallProcesses()
  return runSmall(cwd, ['setsid', 'sh', '-ec', text], env, '')
}
let runSmall: ReturnType<typeof startSmallProcesses> | undefined

/** Runs a job until it prints `ready`, and sends SIGTERM to its first process or to all. */
function cancelJob(
  cwd: string,
  text: string,
  env: Record<string, string | undefined>,
  { signalsFirst = false }: System,
): Promise<JobResult> {
  const file = join(cwd, '.ci/step.sh')
  writeFileSync(file, text)
  const command = signalsFirst ? ['bash', '-e', file] : ['sh', '-ec', text]
  const child = spawn(command[0] ?? '', command.slice(1), {
    ...{ cwd, env, detached: true },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk) => {
      output[name] += chunk
      if (chunk.includes('ready') && child.pid) process.kill(signalsFirst ? child.pid : -child.pid, 'SIGTERM')
    })
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code: code ?? signal, ...output }))
  })
}

/** Returns the environment of a job with a token of the service. */
export function environment({ server, token }: Service): Record<string, string> {
  return { ...npmEnvironment(), COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
}
