import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** What a test file took, in seconds. */
export interface TestTimes {
  file: string
  /** Of all cores, for its process and those that it started and that ended. */
  cpu: number
  wall: number
}

type RememberedTimes = Omit<TestTimes, 'file'>

const CACHE = resolve(import.meta.dirname, '../node_modules/.cache/test-times.json')
/** Bytes of a test file, and of what it has beside it, that take about a second. */
const BYTES_PER_SECOND = { cpu: 2_500, wall: 1_400 }
/** Where Linux has this process. */
const SELF = `/proc/${process.pid}`
/** Ticks in which Linux counts the time of ended processes. */
const TICKS_PER_SECOND = 100

/** Starts to measure, and returns a function that adds what was measured to a list of times. */
export function measureTest(file: string, list: string): () => void {
  const [cpuBefore, wallBefore] = [cpuSeconds(), performance.now()]
  return () => {
    const cpu = cpuSeconds() - cpuBefore
    const times: TestTimes = { file, cpu, wall: (performance.now() - wallBefore) / 1000 }
    appendFileSync(list, `${JSON.stringify(times)}\n`)
  }
}

/** Returns the times of a list. */
export function readTimes(list: string): TestTimes[] {
  const lines = readFileSync(list, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line))
}

/** Remembers times for the order of the next run. */
export function rememberTimes(times: readonly TestTimes[]): void {
  const latest = times.map(({ file, cpu, wall }) => [file, { cpu, wall }])
  mkdirSync(dirname(CACHE), { recursive: true })
  writeFileSync(CACHE, JSON.stringify({ ...rememberedTimes(), ...Object.fromEntries(latest) }))
}

/** Returns about how many seconds files take: as in their latest run here, or else by their size. */
export function expectedSeconds(files: readonly string[], kind: keyof RememberedTimes): Map<string, number> {
  const known = rememberedTimes()
  return new Map(files.map((file) => [file, known[file]?.[kind] ?? sizeOf(file) / BYTES_PER_SECOND[kind]]))
}

/** Returns the bytes of a test file and of those of its folder that it imports. */
function sizeOf(file: string): number {
  const text = readFileSync(file, 'utf8')
  const own = [...text.matchAll(/ from '\.\/([\w-]+\.ts)'/g)].map(([, name = '']) =>
    join(dirname(file), name),
  )
  return [text, ...own.map((path) => readFileSync(path, 'utf8'))].reduce((sum, { length }) => sum + length, 0)
}

/** Returns lines about the ten files that took most CPU, and the ten that waited longest. */
export function dearestFiles(times: readonly TestTimes[]): string[] {
  const list = (title: string, cost: (times: TestTimes) => number) => [
    title,
    ...times
      .map((times) => ({ file: times.file, seconds: cost(times) }))
      .sort((a, b) => b.seconds - a.seconds)
      .slice(0, 10)
      .map(({ file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${file}`),
  ]
  return [
    ...list('Most CPU:', ({ cpu }) => cpu),
    ...list('Longest waits, for timers, databases, disks or a free core:', ({ wall, cpu }) => wall - cpu),
  ]
}

/** Returns the times of files in their latest runs here; none if there were none. */
function rememberedTimes(): Record<string, RememberedTimes> {
  try {
    return JSON.parse(readFileSync(CACHE, 'utf8'))
  } catch {
    return {}
  }
}

/**
 * Returns the seconds of all cores that this process and its children have taken, with the ended
 * children of both.
 */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  if (!existsSync(SELF)) return (user + system) / 1e6
  const children = readFileSync(`${SELF}/task/${process.pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
  const [, , ...ofEnded] = ticksOf(SELF)
  const ticks = [ofEnded, ...children.map((pid) => ticksOf(`/proc/${pid}`))].flat()
  return (user + system) / 1e6 + ticks.reduce((sum, count) => sum + count, 0) / TICKS_PER_SECOND
}

/**
 * Returns the ticks of a process and those of its ended children, for each in its own code and in
 * the kernel.
 */
function ticksOf(process: string): number[] {
  const stat = readFileSync(`${process}/stat`, 'utf8')
  // Fields 14 to 17, counted after the name of the program (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 15).map(Number)
}
