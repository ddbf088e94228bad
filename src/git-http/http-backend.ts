import { type ChildProcess, spawn } from 'node:child_process'
import { Duplex, pipeline, type Readable, type Writable } from 'node:stream'
import { gitEnvironment } from '../git/environment.ts'
import { unavailable } from '../git/repository-health.ts'
import { syncFolders } from './push/folder-sync.ts'
import { HOOK_CHANNEL } from './push/hooks-folder.ts'
import { serveProcReceive } from './push/proc-receive.ts'
import type { Push } from './push/push.ts'
import { removeStaleLocks } from './push/stale-locks.ts'
import { syncBeforeEnd, syncBeforeReport } from './push/synced-answer.ts'

/** git's services over HTTP: fetch and push. */
export type GitService = 'git-upload-pack' | 'git-receive-pack'

/** One request to `git http-backend`. It contains no path or query from the client. */
export interface BackendCall {
  /** Absolute path of the git directory, without symbolic links. */
  path: string
  service: GitService
  /** `refs`: the list of refs that a fetch or push begins with; `rpc`: the fetch or push itself, which takes a body. */
  step: 'refs' | 'rpc'
  /** The client's `Git-Protocol` header. */
  protocol: string | undefined
  /** null unless this is the `rpc` of a push. */
  push: Push | null
}

/** git exceeded its timeout. */
export class BackendTimeout extends Error {
  override readonly name = 'BackendTimeout'
}

/**
 * Settings of a push. It decides which objects git reads, two at once as a whole: one, and another that is made from it. A file
 * that is not read as a whole is written before git finds that the repository has it.
 */
const PUSH_SETTINGS = { 'pack.threads': '1', 'core.bigFileThreshold': '128m' }
/** KiB of memory of each process of a push. git keeps all folders of a small push in memory, however large they are. */
const PUSH_MEMORY = 1536 * 1024
/** Largest block of memory of a fetch. git lists the objects in one, so this is enough for 20 million. */
const FETCH_BLOCK = '2g'
/** Milliseconds in which git removes the received objects of a push whose input ended too early, before it is signalled. */
const INPUT_GRACE = 2_000
/** Milliseconds in which git removes its lock files after SIGTERM, before it is killed. */
const GRACE = 5_000
const HEAD_LENGTH = 8 * 1024
/** Of the length of a packet. */
const LENGTH_DIGITS = 4
const STDERR_LENGTH = 2000
/** Bytes at the end of an answer that are kept; longer than git's last words. */
const TAIL_LENGTH = 2000

/**
 * A `git http-backend` process (git-http-backend(1)) and its children, which end together.
 *
 * They also end if the server dies: their input ends, and their output has no reader.
 */
export class HttpBackend {
  /**
   * Resolves when git has begun its answer. Rejects with RepositoryUnavailable if git refuses to serve the repository,
   * BackendTimeout, or the reason passed to `stop`.
   */
  readonly begun: Promise<void>
  readonly #begun = Promise.withResolvers<void>()
  readonly #child: ChildProcess
  readonly #body: Readable | null
  readonly #answer: Writable
  /** Where git's output goes: to the answer, through what delays it. */
  readonly #output: Writable
  readonly #path: string
  readonly #writes: boolean
  readonly #timer: NodeJS.Timeout
  #killer: NodeJS.Timeout | undefined
  #stderr = ''
  #tail: Buffer = Buffer.alloc(0)
  #closed = false

  /**
   * @param body a whole request; it is destroyed when git does not read it to its end
   * @param answer receives the body of git's answer; it is destroyed if the answer is incomplete. git waits while it is full
   * @param timeout milliseconds until all processes are stopped
   * @param onClose called once, when all processes have ended; `stderr` is the end of git's standard error. The end of
   * the answer waits for it
   */
  constructor(
    call: BackendCall,
    body: Readable | null,
    answer: Writable,
    timeout: number,
    onClose: (end: string, stderr: string) => Promise<void> | undefined,
  ) {
    this.#path = call.path
    this.#writes = call.push !== null
    this.#body = body
    this.#answer = answer
    this.#output = outputTo(answer, call)
    this.begun = this.#begun.promise
    const [command, args] = commandOf(call)
    const { push } = call
    const isGated = push !== null && push.hooks !== null
    const child: ChildProcess = spawn(command, args, {
      cwd: '/',
      env: backendEnvironment(call),
      stdio: [body ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(isGated ? ['pipe' as const] : [])],
      // Makes git the leader of a process group, so that a signal reaches all its children.
      detached: true,
    })
    this.#child = child
    this.#timer = setTimeout(() => this.stop(new BackendTimeout('git took too long')), timeout)
    // Avoids an unhandled rejection if no caller awaits it.
    this.begun.catch(() => {})

    const close = (end: string, isComplete: boolean) => {
      if (this.#closed) return
      this.#closed = true
      clearTimeout(this.#timer)
      clearTimeout(this.#killer)
      body?.destroy()
      const closed = onClose(end, this.#stderr.trim())
      const reason = this.#unavailable(end)
      // No effect if git has begun.
      this.#begun.reject(reason)
      if (!isComplete) answer.destroy(reason)
      else if (closed) closed.finally(() => this.#output.end())
      else this.#output.end()
    }
    // If the process cannot be started there is no `exit`; without free file descriptors no `close` and no streams either.
    child.on('error', (error) => {
      if (child.pid === undefined) close(error.message, false)
    })
    // Emitted after the last process has closed standard error; standard output may have been closed before.
    child.on('close', (code, signal) => {
      const isComplete = code === 0 || (signal === null && isUncut(this.#tail.toString('latin1')))
      close(`git ended with ${signal ?? `code ${code}`}`, isComplete)
    })
    // An error means that git has ended, which `close` reports.
    if (body && child.stdin) pipeline(body, child.stdin, () => {})
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.#stderr = (this.#stderr + chunk).slice(-STDERR_LENGTH)
    })
    if (child.stdout) this.#readHead(child.stdout, push)
    const channel = child.stdio[HOOK_CHANNEL]
    if (isGated && channel instanceof Duplex) serveProcReceive(channel, (pushed) => push.decide(pushed))
  }

  /**
   * Stops all processes that are still running and cuts off the answer.
   *
   * A push is first stopped by closing its input, as if the client had disconnected. If all processes were signalled at
   * once, the process that receives objects might write to a folder that another one has just removed.
   */
  stop(reason: Error): void {
    if (this.#closed || this.#killer) return
    this.#begun.reject(reason)
    this.#answer.destroy(reason)
    // Read to the end, which comes when the last process has closed it.
    this.#child.stdout?.unpipe().resume()
    this.#body?.destroy()
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
  #readHead(stdout: Readable, push: Push | null): void {
    let head = Buffer.alloc(0)
    const read = (chunk: Buffer) => {
      head = Buffer.concat([head, chunk])
      const end = head.indexOf('\r\n\r\n')
      if (end === -1 && head.length < HEAD_LENGTH) return
      stdout.off('data', read)
      const [, status] = /^status: *(\d+)/im.exec(head.toString('latin1', 0, end)) ?? []
      if (end === -1 || (status !== undefined && status !== '200')) {
        stdout.resume()
        this.#begun.reject(this.#unavailable(`git answered ${status ?? 'without a header'}`))
        return
      }
      const look = (bytes: Buffer) => {
        push?.read(bytes)
        const tail = bytes.subarray(-TAIL_LENGTH)
        this.#tail =
          tail.length < TAIL_LENGTH ? Buffer.concat([this.#tail, tail]).subarray(-TAIL_LENGTH) : tail
      }
      const begin = head.subarray(end + 4)
      look(begin)
      stdout.on('data', look)
      // Stopped meanwhile: the rest is only observed.
      if (this.#answer.destroyed) return
      this.#output.write(begin)
      stdout.pipe(this.#output, { end: false })
      // Nobody reads the answer any more.
      this.#answer.once('close', () => stdout.resume())
      this.#begun.resolve()
    }
    stdout.on('data', read)
  }

  #unavailable(end: string): Error {
    const stderr = this.#stderr.trim()
    return unavailable(this.#path, stderr === '' ? end : `${end}: ${stderr}`)
  }
}

/** Returns whether an answer of a git that failed is not cut: it has no body, or ends with a flush packet or with the reason. */
function isUncut(tail: string): boolean {
  const reason = tail.lastIndexOf('ERR ')
  const digits = tail.slice(Math.max(0, reason - LENGTH_DIGITS), Math.max(0, reason))
  const isReason = Number.parseInt(digits, 16) === tail.length - reason + LENGTH_DIGITS
  return tail === '' || tail.endsWith('0000') || isReason
}

/** Returns the stream for git's output. It delays everything that acknowledges a push until the push is on disk. */
function outputTo(answer: Writable, { path, service, push }: BackendCall): Writable {
  if (service === 'git-upload-pack') return answer
  const sync = push
    ? syncBeforeReport(() => push.sync())
    : syncBeforeEnd(async () => {
        // Otherwise the push that follows would fail.
        await removeStaleLocks(path)
        await syncFolders(path)
      })
  pipeline(sync, answer, () => {})
  return sync
}

/** Returns the command to run. A shell limits the memory of a push, because Node has no option for it. */
function commandOf({ push }: BackendCall): [command: string, args: string[]] {
  if (!push) return ['git', ['http-backend']]
  // The service may have a smaller limit, which it cannot raise.
  return ['/bin/sh', ['-c', `ulimit -d ${PUSH_MEMORY} 2>/dev/null; exec git http-backend`]]
}

function backendEnvironment({ path, service, step, protocol, push }: BackendCall): Record<string, string> {
  const settings = {
    ...(push && PUSH_SETTINGS),
    'http.uploadpack': String(service === 'git-upload-pack'),
    'http.receivepack': String(service === 'git-receive-pack'),
    // A repository's own values can only add refs: git asks the hook about a ref when any value matches it.
    ...(push?.hooks && { 'core.hooksPath': push.hooks, 'receive.procReceiveRefs': 'refs' }),
  }
  const isRpc = step === 'rpc'
  return {
    ...gitEnvironment(settings, service === 'git-upload-pack' ? FETCH_BLOCK : undefined),
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_TRANSLATED: `${path}/${isRpc ? service : 'info/refs'}`,
    REQUEST_METHOD: isRpc ? 'POST' : 'GET',
    QUERY_STRING: isRpc ? '' : `service=${service}`,
    ...(isRpc && { CONTENT_TYPE: `application/x-${service}-request` }),
    ...(protocol !== undefined && { GIT_PROTOCOL: protocol }),
  }
}
