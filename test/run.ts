import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createFastFolder } from './helpers/fast-folder.ts'
import { prepareDatabases } from './helpers/prepare-databases.ts'
import { minimalEnvironment } from './helpers/process.ts'
import { failuresOf } from './helpers/tap-failures.ts'
import { dearestFiles, readTimes, rememberTimes } from './times.ts'

/**
 * Runs all tests, or the files given as arguments, with tap. A failed run ends with its failures,
 * and what the compiler finds; any with the files that took longest. The last line is `N passed, N failed, N skipped`, counted from tap's
 * output. A run without a passed test fails. With `--start-within SECONDS`, files that have not been
 * started so many seconds after the first ones are left out, and named at the end.
 */
const root = resolve(import.meta.dirname, '..')
/**
 * Seconds that a file of tests may take, on a machine that is several times as slow as two quiet
 * cores.
 */
const TIME_LIMIT = 600
/** Milliseconds in which a stopped run ends by itself. */
const GRACE_PERIOD = 3_000
/** Milliseconds between two looks for what is still running. */
const INTERVAL = 50
const { values, positionals: named } = parseArgs({
  options: { 'start-within': { type: 'string', default: 'Infinity' } },
  allowPositionals: true,
})
const all = ['test/**/*.test.ts', 'clients/*/test/**/*.test.ts']
const files = named.length > 0 ? named : globSync(all, { cwd: root, exclude: ['**/node_modules'] }).sort()
const missing = named.find((file) => !statSync(resolve(root, file), { throwIfNoEntry: false })?.isFile())
if (missing !== undefined) {
  process.stderr.write(`${missing}: no such test file\n`)
  process.exit(2)
}
// The temporary files of this process, such as PostgreSQL's, and of all tests.
const folder = createFastFolder()
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
process.env.TMPDIR = folder
// Compiles each module once for all test files and the programs that they start.
process.env.NODE_COMPILE_CACHE = join(folder, 'compile-cache')
const timesFile = join(folder, 'times')
writeFileSync(timesFile, '')
const [databases] = await Promise.all([prepareDatabases(), fillCompileCache()])
const until = Date.now() + Number(values['start-within']) * 1_000
const tap = spawn(process.execPath, [join(import.meta.dirname, 'run-files.ts'), ...files], {
  cwd: root,
  env: {
    ...process.env,
    ...databases.environment,
    TAP_TIMEOUT: String(TIME_LIMIT),
    TEST_TIMES: timesFile,
    TEST_UNTIL: String(until),
  },
  stdio: ['ignore', 'pipe', 'pipe'],
  // The tests have a process group of their own.
  detached: true,
})
let stopped: Promise<void> | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    stopped ??= endGroups(groupsOf(tap.pid))
  })

let output = ''
tap.stdout.setEncoding('utf8').on('data', (text: string) => {
  output += text
  // One line per process; failures follow at the end with their diagnostics.
  for (const line of text.split('\n')) if (/^(not )?ok |^# \{/.test(line)) process.stdout.write(`${line}\n`)
})
let errors = ''
tap.stderr.setEncoding('utf8').on('data', (text: string) => {
  errors += text
})

tap.on('close', async (code) => {
  const count = (name: string) =>
    Number(new RegExp(`^# \\{.*\\b${name}: (\\d+).*\\}$`, 'm').exec(output)?.[1] ?? 0)
  const [passed, failed, skipped] = [count('pass'), count('fail'), count('skip') + count('todo')]
  const times = readTimes(timesFile)
  const left = Date.now() < until ? [] : files.filter((file) => !times.some((known) => known.file === file))
  const isGood = code === 0 && failed === 0 && skipped === left.length && passed > 0
  process.stderr.write(errors)
  if (!isGood && !stopped) {
    process.stdout.write(`\n${failuresOf(output, TIME_LIMIT).join('\n\n')}\n\n`)
    const types = await compilerErrors()
    if (types !== '') process.stdout.write(`Warning: types do not compile:\n${types}\n`)
  }
  rememberTimes(times)
  process.stdout.write(`\n${dearestFiles(times).join('\n')}\n\n`)
  if (left.length > 0) process.stdout.write(`Not run, for lack of time:\n${left.join('\n')}\n\n`)
  process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`)
  process.exitCode = isGood ? 0 : 1
  await stopped
  await databases.remove()
})

/**
 * Starts and stops a server. Servers under test are killed before they write the cache; what this
 * one has run is there for all, and not only what it has imported.
 */
async function fillCompileCache(): Promise<void> {
  const environment = { DATA_DIR: join(folder, 'data'), PORT: '0', LOG_LEVEL: 'silent' }
  const server = spawn(process.execPath, [join(root, 'src/server.ts')], {
    env: { ...minimalEnvironment(), ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  server.stdout.once('data', () => server.kill('SIGTERM'))
  await once(server, 'exit')
}

/**
 * Returns the process groups of a process and its descendants: some tests start commands in groups
 * of their own.
 */
function groupsOf(leader = 0): Set<number> {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,pgid='], { encoding: 'utf8' })
  const rows = table
    .trim()
    .split('\n')
    .map((row) => row.trim().split(/\s+/).map(Number))
  const members = new Set([leader])
  const groups = new Set<number>()
  // Ids start again when they are used up, so a parent may come after its child.
  for (let known = 0; known < members.size; ) {
    known = members.size
    for (const [pid = 0, parent = 0, group = 0] of rows) {
      if (pid !== leader && !members.has(parent)) continue
      members.add(pid)
      groups.add(group)
    }
  }
  return groups
}

/** Ends process groups, after a grace period also those that ignore SIGTERM. */
async function endGroups(groups: ReadonlySet<number>): Promise<void> {
  signalGroups(groups, 'SIGTERM')
  const end = performance.now() + GRACE_PERIOD
  while (performance.now() < end && signalGroups(groups, 0)) await setTimeout(INTERVAL)
  signalGroups(groups, 'SIGKILL')
}

/** Sends a signal to process groups. Returns whether one of them has not ended. */
function signalGroups(groups: ReadonlySet<number>, signal: NodeJS.Signals | 0): boolean {
  let isAlive = false
  for (const group of groups) {
    try {
      isAlive = process.kill(-group, signal) || isAlive
    } catch {
      // It has ended.
    }
  }
  return isAlive
}

/**
 * Returns what the compiler finds; "" if all types compile. Run after failures are printed: it
 * takes longer than most tests.
 */
function compilerErrors(): Promise<string> {
  const check = join(import.meta.dirname, 'checks/types.ts')
  return new Promise((resolve) => execFile(process.execPath, [check], (_, __, stderr) => resolve(stderr)))
}
