import { type ChildProcess, spawn } from 'node:child_process'
import { Duplex, PassThrough, type Readable, type Transform, type Writable } from 'node:stream'
import { followFirstBranch } from './default-branch.ts'
import { gitEnvironment } from './environment.ts'
import { syncFolders } from './folder-sync.ts'
import { HOOK_CHANNEL } from './hooks-folder.ts'
import { type DecideRefs, serveProcReceive } from './proc-receive.ts'
import type { PushObserver } from './push-observer.ts'
import { unavailable } from './repository-health.ts'
import { removeStaleLocks } from './stale-locks.ts'
import { syncBeforeEnd, syncBeforeReport } from './synced-answer.ts'

/** git's services over HTTP: fetch and push. */
export type GitService = 'git-upload-pack' | 'git-receive-pack'

/** One request to `git http-backend`. It contains no path or query from the client. */
export interface BackendCall {
  /** Absolute path of the git directory, without symbolic links. */
  path: string
  /** Whether the server created the repository. HEAD of an imported one belongs to its owner. */
  managed: boolean
  /** Returns whether HEAD may leave this branch, which does not exist, for one that was pushed: see `followFirstBranch`. */
  mayMoveHead(branch: string): Promise<boolean>
  service: GitService
  /** `refs`: the list of refs that a fetch or push begins with; `rpc`: the fetch or push itself, which takes input. */
  step: 'refs' | 'rpc'
  /** The client's `Git-Protocol` header. */
  protocol: string | undefined
  /** Decides which refs a push may update. null: git updates all of them. */
  gate: PushGate | null
  /** Receives the body of git's answer to a push. */
  observer: PushObserver | null
}

/** What stands between a push and the refs of a repository. */
export interface PushGate {
  /** A folder for `core.hooksPath`: see `openHooksFolder`. */
  hooks: string
  decide: DecideRefs
}

/** git exceeded its timeout. */
export class BackendTimeout extends Error {
  override readonly name = 'BackendTimeout'
}

/** Milliseconds in which git removes the received objects of a push whose input ended too early, before it is signalled. */
const INPUT_GRACE = 2_000
/** Milliseconds in which git removes its lock files after SIGTERM, before it is killed. */
const GRACE = 5_000
const HEAD_LENGTH = 8 * 1024
const STDERR_LENGTH = 2000
/** Bytes of an answer that are buffered until the request is complete. */
const BUFFERED = 64 * 1024

/**
 * A `git http-backend` process (git-http-backend(1)) and its children, which end together.
 *
 * They also end if the server dies: their input ends, and their output has no reader.
 */
export class HttpBackend {
  /** Input of an `rpc`. Write errors mean that git has ended, which `answer` reports. */
  readonly input: Writable | null
  readonly #child: ChildProcess
  readonly #output: Transform
  readonly #begun = Promise.withResolvers<void>()
  readonly #bufferFull = Promise.withResolvers<void>()
  readonly #failed = Promise.withResolvers<never>()
  readonly #path: string
  readonly #writes: boolean
  readonly #timer: NodeJS.Timeout
  #killer: NodeJS.Timeout | undefined
  #stderr = ''
  #hasBegun = false
  #closed = false

  /**
   * @param timeout milliseconds until all processes are stopped
   * @param onClose called once, when all processes have ended; `stderr` is the end of git's standard error. The end of
   * the answer waits for it
   */
  constructor(
    call: BackendCall,
    timeout: number,
    onClose: (end: string, stderr: string) => Promise<void> | undefined,
  ) {
    this.#path = call.path
    this.#writes = call.service === 'git-receive-pack' && call.step === 'rpc'
    this.#output = outputOf(call)
    const child: ChildProcess = spawn('git', ['http-backend'], {
      cwd: '/',
      env: backendEnvironment(call),
      stdio: [
        call.step === 'rpc' ? 'pipe' : 'ignore',
        'pipe',
        'pipe',
        ...(call.gate ? ['pipe' as const] : []),
      ],
      // Makes git the leader of a process group, so that a signal reaches all its children.
      detached: true,
    })
    this.#child = child
    this.input = child.stdin
    this.#timer = setTimeout(() => this.stop(new BackendTimeout('git took too long')), timeout)
    // Avoids unhandled rejections if no caller awaits these.
    for (const { promise } of [this.#begun, this.#bufferFull, this.#failed]) promise.catch(() => {})
    this.#output.on('error', () => {})

    const close = (end: string, isCut: boolean) => {
      if (this.#closed) return
      this.#closed = true
      clearTimeout(this.#timer)
      clearTimeout(this.#killer)
      const closed = onClose(end, this.#stderr.trim())
      const reason = this.#unavailable(end)
      // If git has begun an answer and exited by itself, the answer is complete, even if it has not been read yet.
      if (isCut || !this.#hasBegun) this.#failed.reject(reason)
      if (isCut) this.#output.destroy(reason)
      else if (closed) closed.finally(() => this.#output.end())
      else this.#output.end()
    }
    // If the process cannot be started there is no `exit`; without free file descriptors no `close` and no streams either.
    child.on('error', (error) => {
      if (child.pid === undefined) close(error.message, true)
    })
    // Emitted after the last process has closed standard error; standard output may have been closed before.
    child.on('close', (code, signal) => close(`git ended with ${signal ?? `code ${code}`}`, signal !== null))
    child.stdin?.on('error', () => {})
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.#stderr = (this.#stderr + chunk).slice(-STDERR_LENGTH)
    })
    if (child.stdout) this.#readHead(child.stdout, call.observer)
    const channel = child.stdio[HOOK_CHANNEL]
    if (call.gate && channel instanceof Duplex) serveProcReceive(channel, call.path, call.gate.decide)
  }

  /**
   * Returns the body of git's answer when the request was `received` in full, so that a request refused half-way gets an
   * error instead; or earlier, if git has filled the buffer and waits for a reader.
   *
   * @throws RepositoryUnavailable if git refuses to serve the repository, BackendTimeout, the error of `received`, and the
   * reason passed to `stop`
   */
  async answer(received: Promise<void>): Promise<Readable> {
    const ready = Promise.race([received, this.#bufferFull.promise])
    await Promise.race([Promise.all([this.#begun.promise, ready]), this.#failed.promise])
    return this.#output
  }

  /**
   * Stops all processes that are still running and cuts off the answer.
   *
   * A push is first stopped by closing its input, as if the client had disconnected. If all processes were signalled at
   * once, the process that receives objects might write to a folder that another one has just removed.
   */
  stop(reason: Error): void {
    if (this.#closed || this.#killer) return
    this.#failed.reject(reason)
    this.#output.destroy(reason)
    // Read to the end, which comes when the last process has closed it.
    this.#child.stdout?.unpipe().resume()
    this.input?.destroy()
    const terminate = () => {
      this.#signal('SIGTERM')
      this.#killer = setTimeout(() => this.#signal('SIGKILL'), GRACE)
    }
    if (this.#writes) this.#killer = setTimeout(terminate, INPUT_GRACE)
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

  /** Reads the CGI header. The body of an error is discarded: it contains paths and advice for Apache. */
  #readHead(stdout: Readable, observer: PushObserver | null): void {
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
      const begin = head.subarray(end + 4)
      observer?.answer(begin)
      if (observer) stdout.on('data', (chunk: Buffer) => observer.answer(chunk))
      // Stopped meanwhile: the rest is only observed.
      if (this.#output.destroyed) return
      this.#output.write(begin)
      stdout.on('pause', () => {
        // A stream also pauses at its end.
        if (!stdout.readableEnded) this.#bufferFull.resolve()
      })
      stdout.pipe(this.#output, { end: false })
      this.#hasBegun = true
      this.#begun.resolve()
    }
    stdout.on('data', read)
  }

  #unavailable(end: string): Error {
    const stderr = this.#stderr.trim()
    return unavailable(this.#path, stderr === '' ? end : `${end}: ${stderr}`)
  }
}

/** Returns the stream for git's output. It delays everything that acknowledges a push until the push is on disk. */
function outputOf({ path, managed, mayMoveHead, service, step }: BackendCall): Transform {
  if (service === 'git-upload-pack') return new PassThrough({ highWaterMark: BUFFERED })
  if (step === 'rpc')
    return syncBeforeReport(async () => {
      if (managed) await followFirstBranch(path, mayMoveHead)
      await syncFolders(path)
    })
  return syncBeforeEnd(async () => {
    // Otherwise the push that follows would fail.
    await removeStaleLocks(path)
    await syncFolders(path)
  })
}

function backendEnvironment({ path, service, step, protocol, gate }: BackendCall): Record<string, string> {
  const settings = {
    'http.uploadpack': String(service === 'git-upload-pack'),
    'http.receivepack': String(service === 'git-receive-pack'),
    // A repository's own values can only add refs: git asks the hook about a ref when any value matches it.
    ...(gate && { 'core.hooksPath': gate.hooks, 'receive.procReceiveRefs': 'refs' }),
  }
  const isRpc = step === 'rpc'
  return {
    ...gitEnvironment(settings),
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_TRANSLATED: `${path}/${isRpc ? service : 'info/refs'}`,
    REQUEST_METHOD: isRpc ? 'POST' : 'GET',
    QUERY_STRING: isRpc ? '' : `service=${service}`,
    ...(isRpc && { CONTENT_TYPE: `application/x-${service}-request` }),
    ...(protocol !== undefined && { GIT_PROTOCOL: protocol }),
  }
}
