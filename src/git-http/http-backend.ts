import type { FileHandle } from 'node:fs/promises'
import { Duplex, pipeline, type Writable } from 'node:stream'
import { gitEnvironment } from '../git/environment.ts'
import { cannotOpen } from '../git/errors.ts'
import { removeStaleLocks } from '../git/leftovers.ts'
import type { OpenedRepository } from '../git/opened-repository.ts'
import { type GitEnd, startGit } from '../git/run-git.ts'
import { syncFolders } from './push/folder-sync.ts'
import { HOOK_CHANNEL, HOOKS, serveProcReceive } from './push/proc-receive.ts'
import type { Push } from './push/push.ts'
import { syncBeforeEnd, syncBeforeReport } from './push/report.ts'

/** git's services over HTTP: fetch and push. */
export type GitService = 'git-upload-pack' | 'git-receive-pack'

/** One request to `git http-backend`. It contains no path or query from the client. */
export interface BackendCall {
  repository: OpenedRepository
  service: GitService
  /** `refs`: the list of refs that a fetch or push begins with; `rpc`: the fetch or push itself, which takes a body. */
  step: 'refs' | 'rpc'
  /** The client's `Git-Protocol` header. */
  protocol: string | undefined
  /** The whole request body; null if there is none. */
  body: Buffer | FileHandle | null
  /** null unless this is the `rpc` of a push. */
  push: Push | null
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
/** Bytes at the end of an answer that are kept; longer than git's last words. */
const TAIL_LENGTH = 2000

/**
 * Starts `git http-backend` (git-http-backend(1)) and its children, which end together; also soon after the server died, since
 * their output has no reader. A push may be completed then.
 *
 * A push is stopped by emptying the file that git reads, as if the client had disconnected. If all processes were signalled at
 * once, the one that receives objects might write to a folder that another one has just removed.
 *
 * @param answer receives the body of git's answer; it is destroyed if the answer is incomplete. git waits while it is full
 * @param signal stops all processes and cuts off the answer
 * @param onEnd called once, when all processes have ended. The end of the answer waits for it
 * @returns a promise that resolves when git has begun its answer. It rejects with RepositoryUnavailable if git refuses to serve the
 * repository, or the reason of `signal`
 */
export function startBackend(
  call: BackendCall,
  answer: Writable,
  signal: AbortSignal,
  onEnd: (end: GitEnd) => Promise<void>,
): Promise<void> {
  const { repository, body, push } = call
  const { promise: begun, resolve, reject } = Promise.withResolvers<void>()
  const input = Buffer.isBuffer(body) ? 'pipe' : (body?.fd ?? 'ignore')
  const { child, ended } = startGit(
    repository,
    ['http-backend'],
    {
      env: backendEnvironment(call),
      stdio: [input, 'pipe', 'pipe', ...(push?.decide ? ['pipe' as const] : [])],
      // Makes git the leader of a process group, so that a signal reaches all its children.
      detached: true,
    },
    push ? PUSH_MEMORY : undefined,
  )
  const { pid, stdout } = child
  const output = outputTo(answer, call)
  let killer: NodeJS.Timeout | undefined
  let refusal = ''
  let tail: Buffer = Buffer.alloc(0)

  const kill = (name: NodeJS.Signals) => {
    try {
      if (pid !== undefined) process.kill(-pid, name)
    } catch {
      // All have ended already.
    }
  }
  const terminate = () => {
    kill('SIGTERM')
    killer = setTimeout(() => kill('SIGKILL'), GRACE)
  }
  const stop = () => {
    reject(signal.reason)
    answer.destroy(signal.reason)
    // Read to the end, which comes when the last process has closed it.
    stdout?.unpipe().resume()
    if (body && !Buffer.isBuffer(body)) body.truncate().catch(() => {})
    killer = setTimeout(terminate, push ? INPUT_GRACE : 0)
  }
  signal.addEventListener('abort', stop)
  ended.then(async (end) => {
    signal.removeEventListener('abort', stop)
    clearTimeout(killer)
    const isComplete = end.code === 0 || (end.code !== null && isUncut(tail.toString('latin1')))
    const reason = cannotOpen(repository.path, refusal + end.reason)
    // No effect if git has begun.
    reject(reason)
    if (!isComplete) answer.destroy(reason)
    await onEnd(end)
    output.end()
  })

  const observe = (bytes: Buffer) => {
    push?.report.read(bytes)
    const last = bytes.subarray(-TAIL_LENGTH)
    tail = last.length < TAIL_LENGTH ? Buffer.concat([tail, last]).subarray(-TAIL_LENGTH) : last
  }
  let head = Buffer.alloc(0)
  /** Reads the CGI header. The body of an error is discarded: it contains paths and advice for Apache. */
  const readHead = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end === -1 && head.length < HEAD_LENGTH) return
    stdout?.off('data', readHead)
    const [, status = '200'] = /^status: *(\d+)/im.exec(head.toString('latin1', 0, end)) ?? []
    if (end === -1 || status !== '200') {
      refusal = `git answered ${end === -1 ? 'without a header' : status}: `
      stdout?.resume()
      return
    }
    const begin = head.subarray(end + 4)
    observe(begin)
    stdout?.on('data', observe)
    // Stopped meanwhile: the rest is only observed.
    if (answer.destroyed) return
    output.write(begin)
    stdout?.pipe(output, { end: false })
    // Nobody reads the answer any more.
    answer.once('close', () => stdout?.resume())
    resolve()
  }
  stdout?.on('data', readHead)
  if (Buffer.isBuffer(body)) child.stdin?.end(body)
  // Without free file descriptors there are no streams.
  const channel = stdout && child.stdio[HOOK_CHANNEL]
  if (push?.decide && channel instanceof Duplex) serveProcReceive(channel, push.decide)
  return begun
}

/** Returns whether an answer of a git that failed is not cut: it has no body, or ends with a flush packet or with the reason. */
function isUncut(tail: string): boolean {
  const reason = tail.lastIndexOf('ERR ')
  const digits = tail.slice(Math.max(0, reason - LENGTH_DIGITS), Math.max(0, reason))
  const isReason = Number.parseInt(digits, 16) === tail.length - reason + LENGTH_DIGITS
  return tail === '' || tail.endsWith('0000') || isReason
}

/** Returns the stream for git's output. It delays everything that acknowledges a push until the push is on disk. */
function outputTo(answer: Writable, { repository, service, push }: BackendCall): Writable {
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

function backendEnvironment({
  repository,
  service,
  step,
  protocol,
  push,
}: BackendCall): Record<string, string> {
  const settings = {
    ...(push && PUSH_SETTINGS),
    'http.uploadpack': String(service === 'git-upload-pack'),
    'http.receivepack': String(service === 'git-receive-pack'),
    // A repository's own values can only add refs: git asks the hook about a ref when any value matches it.
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
