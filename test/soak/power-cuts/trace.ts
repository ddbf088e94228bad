import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'

/** One system call that succeeded, or what a process told somebody. Paths are absolute. */
type Action =
  | { kind: 'open'; path: string; truncates: boolean }
  | { kind: 'folder'; path: string }
  | { kind: 'symlink'; path: string; target: string }
  | { kind: 'link'; from: string; path: string }
  | { kind: 'rename'; from: string; path: string }
  | { kind: 'remove'; path: string }
  /** @property offset null: at the file's end */
  | { kind: 'write'; path: string; offset: number | null; bytes: Buffer }
  | { kind: 'truncate'; path: string; size: number }
  | { kind: 'sync'; path: string }
  /** Bytes written to a socket, a pipe or a terminal. */
  | { kind: 'say'; text: string }
  | { kind: 'exit'; code: number }

/** An action of a traced process. Times are nanoseconds since `EPOCH`. */
export type Traced = Action & {
  start: number
  end: number
  /** Name of the recording: the command that was traced. */
  run: string
  /** The program that acted: `node`, or git or one that git started. */
  program: string
}

const CALLS =
  'execve,clone,clone3,fork,vfork,chdir,fchdir,openat,open,creat,close,dup,dup2,dup3,lseek,read,write,writev,' +
  'pwrite64,pwritev,ftruncate,truncate,fallocate,copy_file_range,rename,renameat,renameat2,link,linkat,symlink,' +
  'symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,fsync,fdatasync,syncfs,sync,sendto,sendmsg'
/** Seconds that are taken off all times, so that nanoseconds fit a number. */
const EPOCH = Math.floor(Date.now() / 1000)

/** The time at this moment, as in `Traced`. */
export function now(): number {
  return (Date.now() - EPOCH * 1000) * 1e6
}

/**
 * Starts a program whose system calls, and those of all processes that it starts, are recorded in
 * `folder`.
 */
export function startTraced(
  folder: string,
  run: string,
  [program = '', ...args]: readonly string[],
  options: { cwd: string; env: NodeJS.ProcessEnv },
): ChildProcess {
  const format = ['--absolute-timestamps=format:unix,precision:ns', '--syscall-times=ns', '-s', '100000000']
  const trace = [
    '-D',
    '-ff',
    '--seccomp-bpf',
    '-y',
    '-xx',
    ...format,
    '-e',
    `trace=${CALLS}`,
    '-e',
    'raw=read,lseek',
  ]
  // With io_uring there would be no system calls to see.
  const env = { ...options.env, UV_USE_IO_URING: '0' }
  return spawn('strace', [...trace, '-o', join(folder, run), program, ...args], {
    ...options,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

/**
 * Waits until all processes of a recording have ended and reads what they did, in the order in
 * which it began.
 */
export async function readTrace(folder: string, run: string, pid: number, cwd: string): Promise<Traced[]> {
  const lines: Line[] = []
  for (const name of readdirSync(folder)) {
    const [, recorded, thread] = /^(.*)\.(\d+)$/.exec(name) ?? []
    if (recorded !== run) continue
    const file = join(folder, name)
    while (!/\+\+\+ (exited|killed) [^\n]*\n$/.test(readFileSync(file, 'latin1').slice(-200)))
      await setTimeout(20)
    for (const line of readFileSync(file, 'latin1').split('\n')) {
      const parsed = parseLine(line, Number(thread))
      if (parsed) lines.push(parsed)
    }
  }
  lines.sort((one, other) => one.start - other.start)
  return new Processes(run, pid, cwd).replay(lines)
}

/** One line of strace's output. */
interface Line {
  thread: number
  start: number
  end: number
  call: string
  args: string
  result: string
}

function parseLine(line: string, thread: number): Line | null {
  const [, seconds, nanoseconds, rest = ''] = /^(\d+)\.(\d{9}) (.*)$/s.exec(line) ?? []
  const start = (Number(seconds) - EPOCH) * 1e9 + Number(nanoseconds)
  const [, exit] = /^\+\+\+ exited with (\d+) \+\+\+$/.exec(rest) ?? []
  if (exit !== undefined) return { thread, start, end: start, call: 'exit', args: '', result: exit }
  // Found from the end, since the arguments may be megabytes.
  const close = rest.lastIndexOf(') ')
  const open = rest.indexOf('(')
  const [, result, took] = /^\)\s+= (\S+)(?:.* <([\d.]+)>)?$/.exec(rest.slice(close)) ?? []
  if (result === undefined || result.startsWith('-') || result === '?') return null
  const end = start + Math.round(Number(took ?? 0) * 1e9)
  return { thread, start, end, call: rest.slice(0, open), args: rest.slice(open + 1, close), result }
}

/** An open file: processes that inherit or duplicate it share its position. */
interface OpenFile {
  offset: number
  appends: boolean
}

interface Process {
  cwd: string
  program: string
  files: Map<number, OpenFile>
}

/**
 * Follows the working folder and the file positions of each process, and symbolic links to folders.
 */
class Processes {
  readonly #run: string
  readonly #pid: number
  readonly #processes = new Map<number, Process>()
  /** By thread, the process that it belongs to. */
  readonly #owners = new Map<number, number>()
  /** Targets of the symbolic links that were made. */
  readonly #links = new Map<string, string>()

  constructor(run: string, pid: number, cwd: string) {
    this.#run = run
    this.#pid = pid
    this.#owners.set(pid, pid)
    this.#processes.set(pid, { cwd, program: '', files: new Map() })
  }

  replay(lines: readonly Line[]): Traced[] {
    const traced: Traced[] = []
    for (const line of lines) {
      const process = this.#processes.get(this.#owners.get(line.thread) ?? 0)
      if (process === undefined) throw new Error(`thread ${line.thread} of ${this.#run} has no process`)
      const action = this.#act(line, process)
      if (action === null) continue
      const { start, end } = line
      traced.push({ ...action, start, end, run: this.#run, program: process.program })
    }
    return traced
  }

  #act(line: Line, process: Process): Action | null {
    const { call, args, result, thread } = line
    const [first = '', second = ''] = args.split(', ', 2)
    const file = process.files.get(Number.parseInt(first, 10))
    const at = (dirfd: string, path: string) =>
      this.#follow(resolve(pathOf(dirfd) ?? process.cwd, decode(path).toString()))
    switch (call) {
      case 'execve':
        process.program = basename(decode(first).toString())
        return null
      case 'clone':
      case 'clone3':
      case 'fork':
      case 'vfork': {
        const child = Number.parseInt(result, 10)
        const isThread = args.includes('CLONE_THREAD')
        this.#owners.set(child, isThread ? (this.#owners.get(thread) ?? 0) : child)
        if (!isThread) this.#processes.set(child, { ...process, files: new Map(process.files) })
        return null
      }
      case 'chdir':
        process.cwd = at('', first)
        return null
      case 'fchdir':
        process.cwd = pathOf(first) ?? process.cwd
        return null
      case 'open':
      case 'openat':
      case 'creat': {
        const path = pathOf(result) ?? ''
        process.files.set(Number.parseInt(result, 10), { offset: 0, appends: args.includes('O_APPEND') })
        const truncates = args.includes('O_TRUNC') || call === 'creat'
        return truncates || args.includes('O_CREAT') ? { kind: 'open', path, truncates } : null
      }
      case 'close':
        process.files.delete(Number.parseInt(first, 10))
        return null
      case 'dup':
      case 'dup2':
      case 'dup3':
        if (file) process.files.set(Number.parseInt(result, 10), file)
        else process.files.delete(Number.parseInt(result, 10))
        return null
      case 'read':
      case 'lseek': {
        // Printed raw, in hexadecimal.
        const moved = process.files.get(Number(first))
        if (moved) moved.offset = call === 'read' ? moved.offset + Number(result) : Number(result)
        return null
      }
      case 'write':
      case 'writev': {
        const bytes = decode(args.slice(first.length)).subarray(0, Number(result))
        const path = pathOf(first)
        if (path === null) return this.#say(process, bytes)
        if (!path.startsWith('/') || isDeleted(first) || !file) return null
        const offset = file.appends ? null : file.offset
        file.offset += bytes.length
        return { kind: 'write', path, offset, bytes }
      }
      case 'pwrite64':
      case 'pwritev': {
        const path = pathOf(first)
        if (path === null || isDeleted(first)) return null
        const bytes = decode(args.slice(first.length)).subarray(0, Number(result))
        return { kind: 'write', path, offset: Number(args.slice(args.lastIndexOf(' '))), bytes }
      }
      case 'sendto':
      case 'sendmsg':
        return this.#say(process, decode(args.slice(first.length)))
      case 'ftruncate':
        return isDeleted(first) ? null : { kind: 'truncate', path: pathOf(first) ?? '', size: Number(second) }
      case 'truncate':
        return { kind: 'truncate', path: at('', first), size: Number(second) }
      case 'mkdir':
        return { kind: 'folder', path: at('', first) }
      case 'mkdirat':
        return { kind: 'folder', path: at(first, second) }
      case 'rmdir':
      case 'unlink':
        return { kind: 'remove', path: at('', first) }
      case 'unlinkat':
        return { kind: 'remove', path: at(first, second) }
      case 'rename':
      case 'link':
        return this.#moved({ kind: call, from: at('', first), path: at('', second) })
      case 'renameat':
      case 'renameat2':
      case 'linkat': {
        const [, , third = '', fourth = ''] = args.split(', ', 4)
        const kind = call === 'linkat' ? 'link' : 'rename'
        return this.#moved({ kind, from: at(first, second), path: at(third, fourth) })
      }
      case 'symlink': {
        const [target, path] = [decode(first).toString(), at('', second)]
        this.#links.set(path, resolve(dirname(path), target))
        return { kind: 'symlink', target, path }
      }
      case 'fsync':
      case 'fdatasync':
        return isDeleted(first) ? null : { kind: 'sync', path: pathOf(first) ?? '' }
      case 'exit':
        return thread === this.#pid ? { kind: 'exit', code: Number(result) } : null
      default:
        // Nothing that is recorded here does so; what did would be missing from the disk.
        throw new Error(`${call} of ${this.#run} is not followed`)
    }
  }

  #moved(action: Extract<Action, { from: string }>): Action {
    const target = this.#links.get(action.from)
    if (target !== undefined) this.#links.set(action.path, target)
    if (action.kind === 'rename') this.#links.delete(action.from)
    return action
  }

  /** Returns the path without symbolic links in its folders. Its last part may be a link. */
  #follow(path: string): string {
    const parts = path.split('/')
    for (let count = 2; count < parts.length; count++) {
      const target = this.#links.get(parts.slice(0, count).join('/'))
      if (target !== undefined) return this.#follow(join(target, ...parts.slice(count)))
    }
    return path
  }

  /** What git's processes say is said to the server, not to a client. */
  #say({ program }: Process, bytes: Buffer): Action | null {
    return program === 'node' ? { kind: 'say', text: bytes.toString('latin1') } : null
  }
}

/** The bytes of all strings in a call's arguments, which strace prints as "\\x68\\x69". */
function decode(args: string): Buffer {
  // Every second part is a string. No pattern over them: they may be megabytes.
  const strings = args.split('"').filter((_part, index) => index % 2 === 1)
  return Buffer.from(strings.join('').replaceAll('\\x', ''), 'hex')
}

/** The path that strace prints behind a file descriptor; null for a socket, a pipe or none. */
function pathOf(descriptor: string): string | null {
  const [, path] = /^(?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>/.exec(descriptor) ?? []
  const text = path === undefined ? '' : Buffer.from(path.replaceAll('\\x', ''), 'hex').toString()
  return text.startsWith('/') ? text : null
}

function isDeleted(descriptor: string): boolean {
  return descriptor.endsWith('(deleted)')
}
