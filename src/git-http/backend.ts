import type { FileHandle } from 'node:fs/promises'
import { Duplex, pipeline, Readable, type Writable } from 'node:stream'
import { nullOnSystemError } from '../errors.ts'
import { gitEnvironment } from '../git/environment.ts'
import { cannotOpen } from '../git/errors.ts'
import { removeStaleLocks } from '../git/leftovers.ts'
import type { OpenedRepository } from '../git/opened-repository.ts'
import { type GitEnd, startGit, terminateGroup } from '../git/run-git.ts'
import { syncFolders } from './push/folder-sync.ts'
import { HOOK_CHANNEL, HOOKS, serveProcReceive } from './push/proc-receive.ts'
import type { Push } from './push/push.ts'
import { syncBeforeEnd, syncBeforeReport } from './push/report.ts'

/** git's services over HTTP: fetch and push. */
export type GitService = 'git-upload-pack' | 'git-receive-pack'

/** What a request asks of git. It contains no path or query from the client. */
export interface GitCall {
  service: GitService
  /** `refs`: the list with which a fetch or push begins; `rpc`: itself, which takes a body. */
  step: 'refs' | 'rpc'
  /** The client's `Git-Protocol` header. */
  protocol: string | undefined
}

export interface BackendOptions {
  /** The whole request body; null if there is none. */
  body: Readable | FileHandle | null
  /** null unless this is the `rpc` of a push. */
  push: Push | null
  /** For the body of git's answer; destroyed if that is incomplete. git waits while it is full. */
  answer: Writable
  /** Stops all processes and cuts off the answer. */
  signal: AbortSignal
  /** Milliseconds after which `signal` aborts. */
  timeout: number
  /** Called once, when all processes have ended. The end of the answer waits for it. */
  onEnd(end: GitEnd): Promise<void>
}

/**
 * Settings of a push. They bound memory, since the push decides which objects git reads: it keeps
 * two as a whole, a base and what a delta makes of it. git streams a larger file to disk before it
 * finds that the repository already has it.
 *
 * Small pushes stay packs too: a fetch would compress what is loose anew each time. Garbage is
 * collected outside of the time for a push: see `GarbageCollector`.
 */
const PUSH_SETTINGS = {
  'pack.threads': '1',
  'core.bigFileThreshold': '128m',
  'receive.unpackLimit': '1',
  'receive.autogc': 'false',
}
/** Larger files are sent as they are stored, and not compared with others for each fetch. */
const FETCH_SETTINGS = { 'core.bigFileThreshold': '1m' }
/** Largest block of memory of a fetch: git lists the objects in one, here 20 million. */
const FETCH_BLOCK = '2g'
/** Milliseconds in which git removes the received objects of a push whose input was emptied. */
const INPUT_GRACE = 2_000
const HEAD_LENGTH = 8 * 1024
/** Of the length of a packet. */
const LENGTH_DIGITS = 4
/** Bytes at the end of an answer that are kept; longer than git's last words. */
const TAIL_LENGTH = 2000

/**
 * Starts `git http-backend` (git-http-backend(1)) and its children, which end together; also soon
 * after the server died, since their output has no reader. A push may be completed then.
 *
 * ```
 *   started ── git's head ──▶ begun ──────────────┐
 *     │  │                      │                 │  all processes
 *     │  └── git refuses ───────│──▶ rejected ────┼── have ended ──▶ onEnd ──▶ end of the answer
 *     │                         │                 │
 *     └───────── signal ────────┴──▶ stopping ────┘
 * ```
 *
 * While git is stopping, its output is still read, and then discarded.
 *
 * @returns a promise that resolves when git has begun its answer. It rejects with
 * RepositoryUnavailable if git refuses to serve the repository, or the reason of `signal`
 */
export function startBackend(
  repository: OpenedRepository,
  call: GitCall,
  options: BackendOptions,
): Promise<void> {
  const { body, push, answer, signal, timeout, onEnd } = options
  const { promise: begun, resolve: begin, reject } = Promise.withResolvers<void>()
  const { child, ended } = startGit(
    repository,
    ['http-backend'],
    {
      env: backendEnvironment(repository, call, push),
      stdio: [
        body instanceof Readable ? 'pipe' : (body?.fd ?? 'ignore'),
        'pipe',
        'pipe',
        ...(push ? ([push.decide ? 'pipe' : 'ignore', push.descriptor ?? 'ignore'] as const) : []),
      ],
      // Makes git the leader of a process group, so that a signal reaches all its children.
      detached: true,
    },
    push ? timeout : undefined,
  )
  const { pid, stdin, stdout, stdio } = child
  const cgi = new CgiReader()
  const output = outputTo(answer, repository, call.service, push)
  let forget = () => {}

  const stop = () => {
    reject(signal.reason)
    answer.destroy(signal.reason)
    forget = emptyAndTerminate(pid, body, push ? INPUT_GRACE : 0)
  }

  const passOn = async () => {
    // To the end, also if nobody takes it: it comes when the last process has closed its output.
    const chunks: AsyncIterable<Buffer> | [] = stdout ?? []
    for await (const chunk of chunks) {
      const bytes = cgi.read(chunk)
      if (cgi.state !== 'body') continue
      push?.report.read(bytes)
      if (output.writableNeedDrain) await drained(output, answer)
      if (!answer.destroyed) output.write(bytes)
      begin()
    }
  }

  const finish = async () => {
    await passOn().catch((error: Error) => answer.destroy(error))
    const end = await ended
    signal.removeEventListener('abort', stop)
    forget()
    const reason = cannotOpen(repository.path, cgi.refusal + end.reason)
    // No effect if git has begun.
    reject(reason)
    if (end.code !== 0 && (end.code === null || cgi.isCut)) answer.destroy(reason)
    await onEnd(end)
    output.end()
  }

  signal.addEventListener('abort', stop)
  // git may end before it has read everything.
  if (body instanceof Readable && stdin) pipeline(body, stdin, () => {})
  // Without free file descriptors there are no streams.
  const channel = stdout && stdio[HOOK_CHANNEL]
  if (push?.decide && channel instanceof Duplex) serveProcReceive(channel, push.decide)
  void finish()
  return begun
}

/**
 * Stops git in steps, as if the client had disconnected. A push is stopped by emptying the file
 * that it reads. If all processes were signalled at once, the one that receives objects might write
 * to a folder that another one has just removed.
 *
 * ```
 *   input emptied ── wait ──▶ SIGTERM: git removes its lock files ── wait ──▶ SIGKILL
 * ```
 *
 * @returns a function to call when all processes have ended
 */
function emptyAndTerminate(
  pid: number | undefined,
  body: Readable | FileHandle | null,
  wait: number,
): () => void {
  // The signals stop git too.
  if (body && !(body instanceof Readable)) body.truncate().catch(nullOnSystemError)
  let forget = () => {}
  const timer = setTimeout(() => {
    forget = terminateGroup(pid)
  }, wait)
  return () => {
    clearTimeout(timer)
    forget()
  }
}

/** Resolves when a stream takes more, or nobody reads the answer any more. */
async function drained(output: Writable, answer: Writable): Promise<void> {
  if (answer.destroyed) return
  const { promise, resolve } = Promise.withResolvers<void>()
  output.once('drain', resolve)
  answer.once('close', resolve)
  await promise
  output.off('drain', resolve)
  answer.off('close', resolve)
}

/**
 * Reads what git prints (CGI, RFC 3875).
 *
 * ```
 *   head ── status 200 ──▶ body
 *     └──── otherwise ───▶ refused: the rest contains paths and advice for Apache
 * ```
 */
class CgiReader {
  state: 'head' | 'body' | 'refused' = 'head'
  /** The beginning of a message that says why git has refused. */
  refusal = ''
  #head: Buffer = Buffer.alloc(0)
  #tail: Buffer = Buffer.alloc(0)

  /** Takes the next bytes. Returns those that belong to the body. */
  read(chunk: Buffer): Buffer {
    const bytes = this.state === 'head' ? this.#readHead(chunk) : chunk
    if (this.state !== 'body') return bytes
    const last = bytes.subarray(-TAIL_LENGTH)
    this.#tail = last.length < TAIL_LENGTH ? Buffer.concat([this.#tail, last]).subarray(-TAIL_LENGTH) : last
    return bytes
  }

  #readHead(chunk: Buffer): Buffer {
    this.#head = Buffer.concat([this.#head, chunk])
    const end = this.#head.indexOf('\r\n\r\n')
    if (end === -1 && this.#head.length < HEAD_LENGTH) return Buffer.alloc(0)
    const [, status = '200'] = /^status: *(\d+)/im.exec(this.#head.toString('latin1', 0, end)) ?? []
    this.state = end !== -1 && status === '200' ? 'body' : 'refused'
    if (this.state === 'refused') this.refusal = `git answered ${end === -1 ? 'without a header' : status}: `
    return this.#head.subarray(end + 4)
  }

  /** Whether the body of a git that failed ends neither with a flush packet nor with the reason. */
  get isCut(): boolean {
    const tail = this.#tail.toString('latin1')
    const reason = tail.lastIndexOf('ERR ')
    const digits = tail.slice(Math.max(0, reason - LENGTH_DIGITS), Math.max(0, reason))
    const isReason = Number.parseInt(digits, 16) === tail.length - reason + LENGTH_DIGITS
    return tail !== '' && !tail.endsWith('0000') && !isReason
  }
}

/** Returns the stream for what git prints: what acknowledges a push waits until that is on disk. */
function outputTo(
  answer: Writable,
  repository: OpenedRepository,
  service: GitService,
  push: Push | null,
): Writable {
  if (service === 'git-upload-pack') return answer
  const sync = push
    ? syncBeforeReport(push.report, push.sync)
    : syncBeforeEnd(async () => {
        // Otherwise the push that follows would fail.
        await removeStaleLocks(repository.path)
        await syncFolders(repository.path)
      })
  pipeline(sync, answer, () => {})
  return sync
}

function backendEnvironment(
  repository: OpenedRepository,
  { service, step, protocol }: GitCall,
  push: Push | null,
): Record<string, string> {
  const settings = {
    ...(push && PUSH_SETTINGS),
    ...(service === 'git-upload-pack' && FETCH_SETTINGS),
    'http.uploadpack': String(service === 'git-upload-pack'),
    'http.receivepack': String(service === 'git-receive-pack'),
    // A repository's own values can only add refs: git asks the hook about a ref when any value
    // matches it.
    ...(push?.decide && { 'core.hooksPath': HOOKS, 'receive.procReceiveRefs': 'refs' }),
  }
  const isRpc = step === 'rpc'
  return {
    ...gitEnvironment(settings, service === 'git-upload-pack' ? FETCH_BLOCK : undefined),
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_TRANSLATED: `${repository.path}/${isRpc ? service : 'info/refs'}`,
    REQUEST_METHOD: isRpc ? 'POST' : 'GET',
    QUERY_STRING: isRpc ? '' : `service=${service}`,
    ...(isRpc && { CONTENT_TYPE: `application/x-${service}-request` }),
    ...(protocol !== undefined && { GIT_PROTOCOL: protocol }),
  }
}
