import { type ChildProcess, spawn } from 'node:child_process'
import { PassThrough, type Readable, type Transform, type Writable } from 'node:stream'
import { gitEnvironment } from './environment.ts'
import { syncFolders } from './folder-sync.ts'
import { unavailable } from './repository-health.ts'
import { removeStaleLocks } from './stale-locks.ts'
import { syncBeforeEnd, syncBeforeReport } from './synced-answer.ts'

/** What git serves over HTTP: fetching, and pushing. */
export type GitService = 'git-upload-pack' | 'git-receive-pack'

/** One request to `git http-backend`. Nothing in it is a path or a query that a client sent. */
export interface BackendCall {
  /** Absolute path of the git directory, without symbolic links. */
  path: string
  /** The git directory that git runs on: see `gitDirOf`. */
  gitDir: string
  /** For all that git writes, in octal digits: see `sharingUmask`. undefined: the umask of this process. */
  umask: string | undefined
  service: GitService
  /** `refs`: the list of refs that every conversation begins with; `rpc`: the conversation, which takes input. */
  step: 'refs' | 'rpc'
  /** The client's `Git-Protocol` header. */
  protocol: string | undefined
}

/** The process took longer than it may. */
export class BackendTimeout extends Error {
  override readonly name = 'BackendTimeout'
}

/** What the configuration of a repository does not decide. */
const SETTINGS = {
  // git enters the folder first and then asks whether "." is trusted, by whatever name; it opens no other repository.
  'safe.directory': '*',
  'http.getanyfile': 'false',
  'transfer.fsckObjects': 'true',
  'receive.fsckObjects': 'true',
  // The push waits for a garbage collection, which then ends with it, instead of leaving a process that nobody counts.
  'gc.autoDetach': 'false',
  'maintenance.autoDetach': 'false',
}
/** Milliseconds in which a push whose input ends too early takes away by itself what it has received. */
const PATIENCE = 2_000
/** Milliseconds that git gets to take away its lock files, before it is killed. */
const GRACE = 5_000
const HEAD_LENGTH = 8 * 1024
const COMPLAINT_LENGTH = 2000
/** Bytes of an answer that are kept back until the question is complete. */
const KEPT_BACK = 64 * 1024

/**
 * One `git http-backend` (git-http-backend(1)) with all the processes that it starts, which end together.
 *
 * They end by themselves too when the server is gone: their input ends, and nobody reads their output.
 */
export class HttpBackend {
  /** Input of an `rpc`. Errors of it are the reader's end, which the answer tells of. */
  readonly input: Writable | null
  readonly #child: ChildProcess
  readonly #output: Transform
  readonly #begun = Promise.withResolvers<void>()
  readonly #crowded = Promise.withResolvers<void>()
  readonly #failed = Promise.withResolvers<never>()
  readonly #path: string
  readonly #writes: boolean
  readonly #timer: NodeJS.Timeout
  #killer: NodeJS.Timeout | undefined
  #complaint = ''
  #hasBegun = false
  #closed = false

  /**
   * @param timeout milliseconds until all is ended
   * @param onClose called once, when no process is left; `complaint` is what git wrote to its standard error
   */
  constructor(call: BackendCall, timeout: number, onClose: (end: string, complaint: string) => void) {
    this.#path = call.path
    this.#writes = call.service === 'git-receive-pack' && call.step === 'rpc'
    this.#output = outputOf(call)
    const [command, args] = commandOf(call)
    const child: ChildProcess = spawn(command, args, {
      cwd: '/',
      env: backendEnvironment(call),
      stdio: [call.step === 'rpc' ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      // The leader of a process group, by which all that it starts is ended.
      detached: true,
    })
    this.#child = child
    this.input = child.stdin
    this.#timer = setTimeout(() => this.stop(new BackendTimeout('git took too long')), timeout)
    // Whoever does not wait for them is not interested.
    for (const { promise } of [this.#begun, this.#crowded, this.#failed]) promise.catch(() => {})
    this.#output.on('error', () => {})

    const close = (end: string, cut: boolean) => {
      if (this.#closed) return
      this.#closed = true
      clearTimeout(this.#timer)
      clearTimeout(this.#killer)
      onClose(end, this.#complaint.trim())
      const reason = this.#unavailable(end)
      // What git has begun to say and then ended by itself is an answer, though nobody may have read it yet.
      if (cut || !this.#hasBegun) this.#failed.reject(reason)
      if (cut) this.#output.destroy(reason)
      else this.#output.end()
    }
    // Without a process there is no `exit`, and for lack of file descriptors no `close` and no streams either.
    child.on('error', (error) => {
      if (child.pid === undefined) close(error.message, true)
    })
    // After the last process has let go of standard error, though standard output may have been given up before.
    child.on('close', (code, signal) => close(`git ended with ${signal ?? `code ${code}`}`, signal !== null))
    child.stdin?.on('error', () => {})
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.#complaint = (this.#complaint + chunk).slice(-COMPLAINT_LENGTH)
    })
    if (child.stdout) this.#readHead(child.stdout)
  }

  /**
   * The body of git's answer. It begins when the question was `received` in full, so that one that is refused half-way
   * has not been answered yet; or when git says so much meanwhile that it would wait to be read.
   *
   * @throws RepositoryUnavailable when git refuses to serve the repository, BackendTimeout, and what `received` and
   * `stop` were given
   */
  async answer(received: Promise<void>): Promise<Readable> {
    const question = Promise.race([received, this.#crowded.promise])
    await Promise.race([Promise.all([this.#begun.promise, question]), this.#failed.promise])
    return this.#output
  }

  /**
   * Ends all processes, if they have not ended. An answer under way is cut off.
   *
   * A push ends first as it would if the client had broken off: signalled all at once, the process that receives
   * objects may still write where another has just cleaned up.
   */
  stop(reason: Error): void {
    if (this.#closed || this.#killer) return
    this.#failed.reject(reason)
    this.#output.destroy(reason)
    // Read to its end, which is when the last process has let go of it.
    this.#child.stdout?.unpipe().resume()
    this.input?.destroy()
    const terminate = () => {
      this.#signal('SIGTERM')
      this.#killer = setTimeout(() => this.#signal('SIGKILL'), GRACE)
    }
    if (this.#writes) this.#killer = setTimeout(terminate, PATIENCE)
    else terminate()
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child
    if (pid === undefined) return
    try {
      process.kill(-pid, signal)
    } catch {
      // All have ended already.
    }
  }

  /** Reads the CGI header. What git says to the client in an error is of no use to anybody: paths and advice for Apache. */
  #readHead(stdout: Readable): void {
    let head = Buffer.alloc(0)
    const read = (chunk: Buffer) => {
      head = Buffer.concat([head, chunk])
      const end = head.indexOf('\r\n\r\n')
      if (end === -1 && head.length < HEAD_LENGTH) return
      stdout.off('data', read)
      const [, status] = /^status: *(\d+)/im.exec(head.toString('latin1', 0, end)) ?? []
      if (end === -1 || (status !== undefined && status !== '200')) {
        stdout.resume()
        this.#failed.reject(this.#unavailable(`git answered ${status ?? 'without a header'}`))
        return
      }
      this.#output.write(head.subarray(end + 4))
      stdout.on('pause', () => {
        // At its end a stream pauses too.
        if (!stdout.readableEnded) this.#crowded.resolve()
      })
      stdout.pipe(this.#output, { end: false })
      this.#hasBegun = true
      this.#begun.resolve()
    }
    stdout.on('data', read)
  }

  #unavailable(end: string): Error {
    const complaint = this.#complaint.trim()
    return unavailable(this.#path, complaint === '' ? end : `${end}: ${complaint}`)
  }
}

/** Whatever a client may take for an acknowledged push is on disk before it is told. */
function outputOf({ path, gitDir, service, step }: BackendCall): Transform {
  if (service === 'git-upload-pack') return new PassThrough({ highWaterMark: KEPT_BACK })
  if (step === 'rpc') return syncBeforeReport(() => syncFolders(path))
  return syncBeforeEnd(async () => {
    // The push that follows would fail on them.
    await removeStaleLocks(path, gitDir)
    await syncFolders(path)
  })
}

/** Node has no option for the umask of a child process. */
function commandOf({ umask }: BackendCall): [command: string, args: string[]] {
  if (umask === undefined) return ['git', ['http-backend']]
  return ['/bin/sh', ['-c', 'umask "$0" && exec git http-backend', umask]]
}

function backendEnvironment({ gitDir, service, step, protocol }: BackendCall): Record<string, string> {
  const settings = {
    ...SETTINGS,
    'http.uploadpack': String(service === 'git-upload-pack'),
    'http.receivepack': String(service === 'git-receive-pack'),
  }
  const isRpc = step === 'rpc'
  return {
    ...gitEnvironment(gitDir, settings),
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_TRANSLATED: `${gitDir}/${isRpc ? service : 'info/refs'}`,
    REQUEST_METHOD: isRpc ? 'POST' : 'GET',
    QUERY_STRING: isRpc ? '' : `service=${service}`,
    ...(isRpc && { CONTENT_TYPE: `application/x-${service}-request` }),
    ...(protocol !== undefined && { GIT_PROTOCOL: protocol }),
  }
}
