import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type FileHandle, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { nullOnSystemError } from '../../util/expected-errors.ts'

/** What is known of a server: whether it runs, or still a git that works on one of its pushes. */
export type ServerState = 'running' | 'git runs' | 'ended' | 'unknown'

interface Own {
  /** Stored with each push: the start of the machine, and the name of the files. */
  server: string
  /** Locked as long as the server holds it. */
  life: FileHandle
  /** Locked as long as the server, or git on one of its pushes, which inherits it, holds it. */
  git: FileHandle
}

/** Milliseconds after which a server has locked the files that it created. */
const LOCKED = 60_000
/** The file descriptors that `flock` locks. */
const [LIFE, GIT] = [3, 4]
const LOCK_BOTH = `flock -x -n ${LIFE} && flock -x -n ${GIT}`
/** Exit code of `flock`. */
const IS_LOCKED = 1
/** The name of the server's file. Hidden ones stay in the folder of the spool: see `openSpool`. */
const LOCK_FILE = /^\.lock-(\w+)\.server$/

/**
 * Finds out whether a server that was killed, and all git that it started for pushes, have ended.
 * Each server has two files that are locked (flock(2)). Such a lock belongs to the opened file: git
 * inherits that, and the system closes it however a process ends. So once nobody holds it, another
 * process gets the lock.
 *
 * Node cannot lock files, so the program `flock` does it once, on files that it inherits. Where
 * there is none, and for the time before this machine started, nothing is known.
 */
export class Presence {
  readonly #folder: string
  #own: Promise<Own | null> | undefined

  /** @param folder of the files */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** Returns what is stored of this server, and what git inherits; null where there are no locks. */
  own(): Promise<Own | null> {
    this.#own ??= this.#create().catch((error: unknown) => {
      // A lack of files or processes passes.
      this.#own = undefined
      return nullOnSystemError(error)
    })
    return this.#own
  }

  /** Returns whether a push was stored by this server. @param server as stored */
  async isOwn(server: string | null): Promise<boolean> {
    return server !== null && server === (await this.#own)?.server
  }

  /** @param server as stored; null if it could not tell */
  async stateOf(server: string | null): Promise<ServerState> {
    const [boot, name = ''] = server?.split('/') ?? []
    if (boot !== (await readBoot()) || !/^\w+$/.test(name)) return 'unknown'
    for (const [held, state] of [
      ['server', 'running'],
      ['git', 'git runs'],
    ] as const) {
      const locked = await isLocked(this.#path(name, held)).catch(nullOnSystemError)
      if (locked !== false) return locked ? state : 'unknown'
    }
    return 'ended'
  }

  /** Removes the files of servers that have ended. Call it while none of them has an open push. */
  async removeEnded(): Promise<void> {
    const boot = await readBoot()
    for (const file of await readdir(this.#folder)) {
      const [, name] = LOCK_FILE.exec(file) ?? []
      if (name === undefined) continue
      // Another instance may have removed it meanwhile.
      const state = await stat(join(this.#folder, file)).catch(nullOnSystemError)
      if (!state || state.mtimeMs > Date.now() - LOCKED) continue
      if ((await this.stateOf(`${boot}/${name}`)) === 'ended') await this.#remove(name)
    }
  }

  /** Call it when all git has ended. */
  async close(): Promise<void> {
    const own = await this.#own
    if (!own) return
    await Promise.all([own.life.close(), own.git.close()])
    await this.#remove(own.server.split('/').at(-1) ?? '')
  }

  async #create(): Promise<Own | null> {
    const boot = await readBoot()
    if (boot === null) return null
    const name = randomBytes(12).toString('hex')
    const handles: FileHandle[] = []
    let own: Own | null = null
    try {
      for (const held of ['server', 'git'] as const)
        handles.push(await open(this.#path(name, held), 'wx', 0o600))
      const [life, git] = handles
      if (life && git && (await run('sh', ['-c', LOCK_BOTH], [life.fd, git.fd])) === 0)
        own = { server: `${boot}/${name}`, life, git }
      return own
    } finally {
      if (own === null) {
        await Promise.all(handles.map((handle) => handle.close()))
        await this.#remove(name)
      }
    }
  }

  #path(name: string, held: 'server' | 'git'): string {
    return join(this.#folder, `.lock-${name}.${held}`)
  }

  async #remove(name: string): Promise<void> {
    for (const held of ['git', 'server'] as const) await rm(this.#path(name, held), { force: true })
  }
}

/** Returns whether a process of this machine holds the lock of a file; null if that is unknown. */
async function isLocked(path: string): Promise<boolean | null> {
  await using file = await open(path)
  const code = await run('flock', ['-s', '-n', String(LIFE)], [file.fd])
  return code === 0 || code === IS_LOCKED ? code === IS_LOCKED : null
}

/** Runs a program that inherits files, from the descriptor `LIFE` on. Returns its exit code. */
async function run(
  program: string,
  args: readonly string[],
  descriptors: readonly number[],
): Promise<number | null> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'ignore', ...descriptors] })
  await once(child, 'exit')
  return child.exitCode
}

/** Returns the id of the start of this machine (proc(5)); null if it has none. */
function readBoot(): Promise<string | null> {
  return readFile('/proc/sys/kernel/random/boot_id', 'utf8').then((id) => id.trim(), nullOnSystemError)
}
