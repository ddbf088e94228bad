import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { git } from '../../../test/helpers/git.ts'
import { startSmallProcesses } from '../../../test/helpers/small-process.ts'
import { npmEnvironment } from '../../typescript/test/helpers/package.ts'
import type { Service } from '../../typescript/test/helpers/service.ts'
import { type Result, recipes, type System, systems } from './systems.ts'

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
    const jobEnv = { ...all, PATH: `${join(cwd, '.ci')}:${own.PATH}` }
    return cancel ? cancelJob(cwd, text, jobEnv, system) : runJob(cwd, text, jobEnv)
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
  // With `-c` some shells become the last command, which hides that they pass no signal on.
  const file = join(cwd, '.ci/step.sh')
  writeFileSync(file, text)
  const [shell, ...args] = signalsFirst ? (['bash', '-e', file] as const) : (['sh', '-ec', text] as const)
  const child = spawn(shell, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
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
