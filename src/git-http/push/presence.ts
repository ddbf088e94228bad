import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, isSystemError, nullOnSystemError } from '../../errors.ts'

/** What is known of a server: whether it runs, or still a git that works on one of its pushes. */
export type ServerState = 'running' | 'git runs' | 'ended' | 'unknown'

interface Own {
  /** Stored with each push: the start of the machine, and the name of the FIFOs. */
  server: string
  /** Held by the server. */
  life: FileHandle
  /** Held by the server, and by git on its pushes, which inherits it. */
  git: FileHandle
}

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants
/** Milliseconds after which a server has opened the FIFOs that it created. */
const OPENED = 60_000

/**
 * Finds out whether a server that was killed, and all git that it started for pushes, have ended.
 * Each server creates two FIFOs and holds their read ends. The system closes them however a process
 * ends; so once nobody holds one, opening it for writing fails.
 *
 * A FIFO tells nothing of other machines that share its folder, nor of the time before this machine
 * started.
 */
export class Presence {
  readonly #folder: string
  #own: Promise<Own | null> | undefined

  /** @param folder of the FIFOs */
  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * Returns what is stored of this server, and what git inherits; null where there are no FIFOs.
   */
  own(): Promise<Own | null> {
    this.#own ??= this.#create().catch((error: unknown) => {
      // A lack of files or processes passes.
      this.#own = undefined
      return nullOnSystemError(error)
    })
    return this.#own
  }

  /** @param server as stored; null if it could not tell */
  async stateOf(server: string | null): Promise<ServerState> {
    const [boot, name = ''] = server?.split('/') ?? []
    if (boot !== (await readBoot()) || !/^\w+$/.test(name)) return 'unknown'
    try {
      if (await isHeld(this.#path(name, 'server'))) return 'running'
      return (await isHeld(this.#path(name, 'git'))) ? 'git runs' : 'ended'
    } catch (error) {
      if (isSystemError(error)) return 'unknown'
      throw error
    }
  }

  /** Removes the FIFOs of servers that have ended. Call it while none of them has an open push. */
  async removeEnded(): Promise<void> {
    const boot = await readBoot()
    for (const file of await readdir(this.#folder)) {
      const [, name] = /^fifo-(\w+)\.server$/.exec(file) ?? []
      if (name === undefined || (await this.stateOf(`${boot}/${name}`)) !== 'ended') continue
      if ((await stat(join(this.#folder, file))).mtimeMs < Date.now() - OPENED) await this.#remove(name)
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
    const paths = [this.#path(name, 'server'), this.#path(name, 'git')]
    // Node cannot create them. If the file system cannot either, there is nothing to open.
    await once(spawn('mkfifo', ['-m', '600', ...paths], { stdio: 'ignore' }), 'exit')
    const handles: FileHandle[] = []
    try {
      for (const path of paths) handles.push(await open(path, O_RDONLY | O_NONBLOCK))
    } catch (error) {
      await Promise.all(handles.map((handle) => handle.close()))
      await this.#remove(name)
      throw error
    }
    const [life, git] = handles
    return life && git ? { server: `${boot}/${name}`, life, git } : null
  }

  #path(name: string, held: 'server' | 'git'): string {
    return join(this.#folder, `fifo-${name}.${held}`)
  }

  async #remove(name: string): Promise<void> {
    for (const held of ['git', 'server'] as const) await rm(this.#path(name, held), { force: true })
  }
}

/** Returns whether a process of this machine reads a FIFO. */
async function isHeld(path: string): Promise<boolean> {
  try {
    await (await open(path, O_WRONLY | O_NONBLOCK)).close()
    return true
  } catch (error) {
    if (hasCode(error, 'ENXIO')) return false
    throw error
  }
}

/** Returns the id of the start of this machine (proc(5)); null if it has none. */
function readBoot(): Promise<string | null> {
  return readFile('/proc/sys/kernel/random/boot_id', 'utf8').then((id) => id.trim(), nullOnSystemError)
}
