import { availableParallelism, cpus } from 'node:os'
import { setInterval } from 'node:timers/promises'
import t from 'tap'
import { expectedSeconds } from './times.ts'

/**
 * Runs test files as subtests of one tap test, several processes at a time. Node runs TypeScript
 * itself. Tap's own command would first load its loader for TypeScript into each process, which
 * takes longer than most tests.
 */
const [, , ...files] = process.argv
/**
 * Files in one process: starting one takes longer than many files, but one that has grown takes
 * longer to start git.
 */
const MOST = 3
/** Where few tests start programs. */
const MOST_WITHOUT_PROGRAMS = 6
const WITHOUT_PROGRAMS = /^test\/(api|checks|codegen|domain|store|util)\//
/**
 * Seconds, or the share of those of all files if that is more, that the files in one process take at
 * most. One that takes longer runs alone.
 */
const [MOST_SECONDS, MOST_SHARE] = [10, 0.01]
/**
 * MiB of new objects, as in the server: most of what a test creates is garbage when they are full.
 */
const NEW_OBJECTS = 16
/** Processes for each core: as many as keep it busy, since some tests wait most of their time. */
const [FEWEST_PER_CORE, MOST_PER_CORE] = [2, 3]
/** Milliseconds after which another process starts if cores were idle. */
const INTERVAL = 250
/** Share of the time of all cores. */
const IDLE = 0.05

// TAP_TIMEOUT limits each file, not all of them together.
t.setTimeout(0)
// Tap would have each process, and all Node.js processes that it starts, record coverage.
const environment = `NODE_OPTIONS=${process.env.NODE_OPTIONS ?? ''}`
const options = [
  `--min-semi-space-size=${NEW_OBJECTS}`,
  `--max-semi-space-size=${NEW_OBJECTS}`,
  ...['--import', import.meta.resolve('./helpers/tap-hooks.ts')],
]
const together = `${import.meta.dirname}/run-together.ts`

const groups = groupFiles()
t.plan(groups.length)
// The loop below decides how many run.
t.jobs = groups.length
const cores = availableParallelism()
let running = 0
startUpTo(FEWEST_PER_CORE * cores)
let before = coreTimes()
for await (const _ of setInterval(INTERVAL)) {
  const now = coreTimes()
  const isIdle = now.idle - before.idle > IDLE * (now.all - before.all)
  before = now
  if (isIdle) startUpTo(Math.min(running + 1, MOST_PER_CORE * cores))
  if (groups.length === 0) break
}

/** Starts the next groups, until so many processes run. */
function startUpTo(count: number): void {
  while (running < count) {
    const group = groups.shift()
    if (!group) return
    running++
    const program = [process.execPath, ...options, together, ...group]
    t.spawn('env', [environment, ...program], { buffered: true }, group.join(' ')).then(() => {
      running--
      startUpTo(FEWEST_PER_CORE * cores)
    })
  }
}

/**
 * Returns the files of each process: neighbors, which import much of the same. Those that take
 * longest come first, so that at the end no process runs alone.
 */
function groupFiles(): string[][] {
  const expected = expectedSeconds(files, 'wall')
  const secondsOf = (group: readonly string[]) =>
    group.reduce((sum, file) => sum + (expected.get(file) ?? 0), 0)
  const mostSeconds = Math.max(MOST_SECONDS, MOST_SHARE * secondsOf(files))
  const groups: string[][] = []
  for (const withoutPrograms of [true, false]) {
    const most = withoutPrograms ? MOST_WITHOUT_PROGRAMS : MOST
    let group: string[] = []
    for (const file of files.filter((file) => WITHOUT_PROGRAMS.test(file) === withoutPrograms)) {
      if (group.length === most || secondsOf([...group, file]) > mostSeconds) group = []
      if (group.push(file) === 1) groups.push(group)
    }
  }
  return groups.sort((a, b) => secondsOf(b) - secondsOf(a))
}

/** Returns the milliseconds of all cores since the machine started. */
function coreTimes(): { idle: number; all: number } {
  const times = cpus().map(({ times }) => times)
  const sum = (of: (core: (typeof times)[number]) => number) => times.reduce((sum, core) => sum + of(core), 0)
  return {
    idle: sum(({ idle }) => idle),
    all: sum(({ user, nice, sys, idle, irq }) => user + nice + sys + idle + irq),
  }
}
