import type { FileHandle } from 'node:fs/promises'
import { Duplex, pipeline, Readable, type Writable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Pusher } from '../domain/actors.ts'
import { gitEnvironment } from '../git/environment.ts'
import { cannotOpen } from '../git/errors.ts'
import { removeStaleLocks } from '../git/leftovers.ts'
import type { OpenedRepository } from '../git/opened-repository.ts'
import { type GitEnd, startGit, terminateGroup } from '../git/run-git.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import { nullOnSystemError } from '../util/expected-errors.ts'
import type { SyncFolders } from './push/folder-sync.ts'
import { packet } from './push/pkt-line.ts'
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

/** A call of git over HTTP. */
export interface GitRequest extends GitCall {
  request: FastifyRequest
  reply: FastifyReply
  repository: ReadableRepository
  /** Whose shares the request uses: its user, or its address if it has no credential. */
  client: string
  /** null unless it is a push. */
  pusher: Pusher | null
  /** Throws if the caller may not do this any more. */
  authorizeAgain(): Promise<void>
}

export interface ServiceOptions {
  /** The whole request body; null if there is none. */
  body: Readable | FileHandle | null
  /** null unless this is the `rpc` of a push with commands. */
  push: Push | null
  syncFolders: SyncFolders
  /** For the body of git's answer; destroyed if that is incomplete. git waits while it is full. */
  answer: Writable
  /** Stops all processes; the answer is cut off, or ends with the report of a failed push. */
  signal: AbortSignal
  /** Milliseconds after which `signal` aborts. */
  timeout: number
  /**
   * Returns the report of a push that git has not reported, since it failed or was stopped. null: the
   * answer is cut off.
   */
  reportFailure(error: unknown): Promise<Buffer> | null
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
  // The server holds the lock of HEAD while a setting of it is recorded, and git needs it for the branch
  // that HEAD names. By default git waits 0.1 s for each lock, and then refuses the update.
  'core.filesRefLockTimeout': '2000',
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
/** Why git ends a fetch, which it says on standard error alone. */
const FETCH_REASON = /^fatal: (no commits selected for shallow requests)$/m
/** Of the length of a packet. */
const LENGTH_DIGITS = 4
/** Bytes at the end of an answer that are kept; longer than git's last words. */
const TAIL_LENGTH = 2000

/** Who moves refs, in a reflog, which only imported repositories have. The audit log has the user. */
const COMMITTER = { GIT_COMMITTER_NAME: 'anonymous', GIT_COMMITTER_EMAIL: 'anonymous@http.(none)' }

/**
 * Starts `git upload-pack` or `git receive-pack`, whose children end with it; also soon after the
 * server died, since their output has no reader. A push may be completed then.
 *
 * ```
 *   started ── list of refs: first byte; otherwise at once ──▶ begun ──┐
 *     │  │                                                       │     │  all processes
 *     │  └── git fails before it lists refs ──▶ rejected ────────│─────┼── have ended ──▶ onEnd ──▶ end of the answer
 *     │                                                          │     │
 *     └────────────────────────── signal ────────────────────────┴──▶ stopping
 * ```
 *
 * While git is stopping, its output is still read, and then discarded.
 *
 * @returns a promise that resolves when git has begun its answer. It rejects with
 * RepositoryUnavailable if git cannot be started or cannot list the refs, or the reason of `signal`.
 * If git cannot be started, nothing is done with the answer
 */
export function startService(
  repository: OpenedRepository,
  call: GitCall,
  options: ServiceOptions,
): Promise<void> {
  const { body, push, answer, signal, timeout, reportFailure, onEnd } = options
  const { promise: begun, resolve: begin, reject } = Promise.withResolvers<void>()
  const { child, ended } = startGit(
    repository,
    commandOf(repository, call),
    {
      env: serviceEnvironment(call, push),
      stdio: [
        body instanceof Readable ? 'pipe' : (body?.fd ?? 'ignore'),
        'pipe',
        'pipe',
        ...(push ? ([push.isGated ? 'pipe' : 'ignore', push.descriptor ?? 'ignore'] as const) : []),
      ],
    },
    push ? { kind: 'push', cpuTime: timeout } : { kind: 'fetch' },
  )
  const { pid, stdin, stdout, stdio } = child
  let tail: Buffer = Buffer.alloc(0)
  let failure: Promise<Buffer> | null = null
  const output = outputTo(repository, call.service, options, () => failure)
  let preface = prefaceOf(call)
  let forget = () => {}
  if (call.step === 'rpc' && pid !== undefined) begin()

  const fail = (error: unknown) => {
    // Whoever is told that git has not begun answers.
    if (pid === undefined) return
    // A client that does not read what git says would not read the report either.
    if (push && !push.report.isBegun && !output.writableNeedDrain) failure ??= reportFailure(error)
    // The answer may end without it.
    failure?.catch(() => {})
    if (failure === null) answer.destroy(error instanceof Error ? error : new Error(String(error)))
  }

  const stop = () => {
    reject(signal.reason)
    fail(signal.reason)
    forget = emptyAndTerminate(pid, body, push ? INPUT_GRACE : 0)
  }

  const passOn = async () => {
    // To the end, also if nobody takes it: it comes when the last process has closed its output.
    const chunks: AsyncIterable<Buffer> | [] = stdout ?? []
    for await (const chunk of chunks) {
      tail = Buffer.concat([tail, chunk.subarray(-TAIL_LENGTH)]).subarray(-TAIL_LENGTH)
      if (failure === null) push?.report.read(chunk)
      if (output.writableNeedDrain) await drained(output, answer)
      if (!answer.destroyed && failure === null)
        output.write(preface === '' ? chunk : Buffer.concat([Buffer.from(preface), chunk]))
      preface = ''
      begin()
    }
  }

  const finish = async () => {
    await passOn().catch(fail)
    const end = await ended
    signal.removeEventListener('abort', stop)
    forget()
    if (end.code === 0) begin()
    else {
      const reason = cannotOpen(repository.path, end.reason)
      // No effect if git has begun.
      reject(reason)
      const [, said] = FETCH_REASON.exec(end.stderr) ?? []
      // git ends between two packets.
      if (said !== undefined && call.service === 'git-upload-pack') output.write(packet(`ERR ${said}`))
      else if (end.code === null || isCut(tail) || push?.report.isBegun === false) fail(reason)
    }
    await onEnd(end)
    if (pid !== undefined) output.end()
  }

  signal.addEventListener('abort', stop)
  // git may end before it has read everything.
  if (body instanceof Readable && stdin) pipeline(body, stdin, () => {})
  // Without free file descriptors there are no streams.
  const channel = stdout && stdio[HOOK_CHANNEL]
  if (push?.isGated && channel instanceof Duplex) serveProcReceive(channel, push)
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
 * Returns whether the answer of a git that failed ends neither with a flush packet nor with the reason:
 * then git has not said all that it had to say.
 *
 * @param last the last bytes of the answer
 */
function isCut(last: Buffer): boolean {
  const tail = last.toString('latin1')
  const reason = tail.lastIndexOf('ERR ')
  const digits = tail.slice(Math.max(0, reason - LENGTH_DIGITS), Math.max(0, reason))
  const isReason = Number.parseInt(digits, 16) === tail.length - reason + LENGTH_DIGITS
  return tail !== '' && !tail.endsWith('0000') && !isReason
}

/** Returns the stream for what git prints: what acknowledges a push waits until that is on disk. */
function outputTo(
  repository: OpenedRepository,
  service: GitService,
  { answer, push, syncFolders }: ServiceOptions,
  failure: () => Promise<Buffer> | null,
): Writable {
  if (service === 'git-upload-pack') return answer
  const sync = push
    ? syncBeforeReport(push, failure)
    : syncBeforeEnd(async () => {
        // Otherwise the push that follows would fail.
        await removeStaleLocks(repository.path)
        await syncFolders(repository.path)
      })
  pipeline(sync, answer, () => {})
  return sync
}

/** Returns the arguments of git. `--http-backend-info-refs` lists the refs. */
function commandOf({ path }: OpenedRepository, { service, step }: GitCall): string[] {
  const list = step === 'refs' ? ['--http-backend-info-refs'] : []
  return [service.slice('git-'.length), '--stateless-rpc', ...list, path]
}

/**
 * Returns what precedes the list of refs (gitprotocol-http(5), "Smart Clients"): nothing in version 2
 * of the protocol (gitprotocol-v2(5), "HTTP Transport").
 */
function prefaceOf({ service, step, protocol }: GitCall): string {
  const isVersion2 = protocol?.split(':').includes('version=2')
  return step === 'refs' && !isVersion2 ? `${packet(`# service=${service}\n`)}0000` : ''
}

function serviceEnvironment({ service, protocol }: GitCall, push: Push | null): Record<string, string> {
  const settings = {
    ...(push && PUSH_SETTINGS),
    ...(push?.mayDeleteHead && { 'receive.denyDeleteCurrent': 'ignore' }),
    ...(service === 'git-upload-pack' && FETCH_SETTINGS),
    // A repository's own values can only add refs: git asks the hook about a ref when any value
    // matches it.
    ...(push?.isGated && { 'core.hooksPath': HOOKS, 'receive.procReceiveRefs': 'refs' }),
  }
  return {
    ...gitEnvironment(settings, service === 'git-upload-pack' ? FETCH_BLOCK : undefined),
    ...(push && COMMITTER),
    ...(protocol !== undefined && { GIT_PROTOCOL: protocol }),
  }
}
