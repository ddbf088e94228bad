import { readdirSync, readFileSync } from 'node:fs'
import { sleep } from '../../sleep.ts'

/** A process that cannot be confused with a later one of the same number. */
export interface ProcessIdentity {
  /** Id of the boot in which it was started. */
  boot: string
  pid: number
  /** Ticks from the boot to its start. */
  start: number
}

/** What tells the processes of a command from all others. */
export interface Trace {
  /** Value of the variable that each of them has inherited. */
  run: string
  /** The process that was started, which leads a session of its own. */
  leader?: ProcessIdentity | undefined
}

interface ProcessRow {
  pid: number
  state: string
  parent: number
  group: number
  session: number
  start: number
}

/** The variable by whose value the processes of a command are found. */
export const MARK = 'COMMIT_STATUS_RUN'
const PAUSE = 20
/** Longest time in which processes end after SIGKILL, in milliseconds: one that waits for a disk takes longer. */
const AFTER_KILL = 5_000

/** Returns what identifies a running process; undefined if it has ended. */
export function identify(pid: number): ProcessIdentity | undefined {
  const row = readRow(pid)
  return row && { boot: bootId(), pid, start: row.start }
}

/**
 * Ends all that a command has started: SIGTERM, and SIGKILL to what is left after the grace time, until
 * nothing is left. A command can pass SIGTERM on to what this user may not signal.
 *
 * @param grace in milliseconds
 * @returns the processes that did not end
 */
export async function endProcesses(trace: Trace, grace: number): Promise<number[]> {
  let left = findProcesses(trace)
  if (grace > 0) {
    signalAll(left, 'SIGTERM')
    for (const end = performance.now() + grace; left.length > 0 && performance.now() < end; ) {
      await sleep(PAUSE)
      left = findProcesses(trace)
    }
  }
  // Each round also finds what was started during the one before.
  for (const end = performance.now() + AFTER_KILL; left.length > 0 && performance.now() < end; ) {
    signalAll(left, 'SIGKILL')
    await sleep(PAUSE)
    left = findProcesses(trace)
  }
  return left
}

function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended, or belongs to another user.
    }
  }
}

/**
 * Returns the processes of a command: those of its session and group, those that have inherited the
 * mark, and all that were started by these. A process whose parent has ended, and that has also left the
 * session and removed the mark, is not found.
 */
export function findProcesses({ run, leader }: Trace): number[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readRow(Number(name)))
    .filter((row) => row !== undefined)
  const rows = all.filter(({ state }) => state !== 'Z')
  // The number of a process is given to another one only once no group and no session has it.
  const isReused = all.some(({ pid, start }) => pid === leader?.pid && start !== leader.start)
  const known = leader?.boot === bootId() && !isReused ? leader : undefined
  const isOfLeader = ({ pid, group, session, start }: ProcessRow) =>
    known !== undefined && start >= known.start && [pid, group, session].includes(known.pid)
  const found = new Set(rows.filter((row) => isOfLeader(row) || hasMark(row.pid, run)).map(({ pid }) => pid))
  for (let size = -1; size !== found.size; ) {
    size = found.size
    for (const { pid, parent } of rows) if (found.has(parent)) found.add(pid)
  }
  found.delete(process.pid)
  return [...found]
}

function hasMark(pid: number, run: string): boolean {
  return `\0${readProc(pid, 'environ')}`.includes(`\0${MARK}=${run}\0`)
}

/** Reads the fields after the name of the program, which is in parentheses and can contain anything. */
function readRow(pid: number): ProcessRow | undefined {
  const text = readProc(pid, 'stat')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', parent, group, session] = fields
  const start = fields[19]
  if (start === undefined) return undefined
  return {
    pid,
    state,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    start: Number(start),
  }
}

/** Returns a file of a process; empty if it has ended, or belongs to another user. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
}
