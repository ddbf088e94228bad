import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import { type BackendCall, BackendTimeout, HttpBackend } from '../git/http-backend.ts'
import { PushObserver } from '../git/push-observer.ts'
import { checkRepositoryFiles } from '../git/repository-health.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import type { RepositoryAccess } from '../store/access.ts'
import type { Pusher } from '../store/audit.ts'
import { QueueFull } from '../util/fair-queue.ts'
import { SharedBudget } from '../util/shared-budget.ts'
import { bodyLimit, type GitBody, NO_BODY } from './body.ts'
import { readFetchBody } from './fetch-body.ts'
import { divideGitSlots } from './git-slots.ts'
import { openPushBody } from './push-body.ts'
import type { PushRecorder } from './push-record.ts'
import type { PushRules } from './push-rules.ts'
import type { MinimumRate } from './rate-watch.ts'

export interface GitLimits {
  /** Largest push in bytes. */
  maxBytes: number
  /** Milliseconds that git may work on one request. */
  timeout: number
  /** Maximum number of requests that git handles at a time. */
  maxChildren: number
  /** Milliseconds that a request may wait for a slot. */
  maxWait: number
  /** Bytes of memory for the bodies of all fetches. */
  bodyMemory: number
  /** Minimum rate of a push while git waits for the client. */
  minimumRate: MinimumRate
}

/** Many proxies give up after 60 seconds. The difference leaves git time to begin its answer. */
const MAX_WAIT = 45_000

export const DEFAULT_GIT_LIMITS: GitLimits = {
  maxBytes: 2 * 1024 ** 3,
  timeout: 600_000,
  maxChildren: 16,
  maxWait: MAX_WAIT,
  bodyMemory: 64 * 1024 ** 2,
  minimumRate: { bytesPerSecond: 1024, window: 30_000 },
}

/** Returns git's answer to a request. */
export type ServeGit = (
  request: FastifyRequest,
  reply: FastifyReply,
  repository: RepositoryAccess,
  call: GitCall,
) => Promise<Readable>

export type GitCall = Pick<BackendCall, 'service' | 'step' | 'protocol'> & {
  /** null unless it is a push. */
  pusher: Pusher | null
}

/**
 * Creates a function that runs git for requests, within `limits`. Only a client that has sent data holds a resource:
 *
 * ```
 *   list of refs ───────────────────────────────────┐
 *   fetch ── whole body read (bounded memory) ──────┼──▶ waits for a slot ──▶ git runs ─────────▶ slot released
 *   push ─── first byte read ───────────────────────┘    (fair, bounded)       (at most `timeout`)
 * ```
 *
 * A slot is released when the last process has ended. When the client disconnects, its request leaves the queue, or git is
 * stopped.
 *
 * @param bodyTimeout milliseconds in which the body of a fetch must arrive
 * @param rules decide what a push may change
 * @param recorder called when git has ended a push
 * @returns a function that throws ServiceError `git_busy`, `too_slow`, `unavailable`, the errors of the body, and
 * RepositoryUnavailable
 */
export function createGitServer(
  limits: GitLimits,
  bodyTimeout: number,
  rules: PushRules,
  recorder: PushRecorder,
): ServeGit {
  const slots = divideGitSlots(limits.maxChildren, limits.maxWait)
  const memory = new SharedBudget(limits.bodyMemory)

  async function receive(
    { raw, client }: FastifyRequest,
    reply: FastifyReply,
    { service, step }: GitCall,
    observer: PushObserver | null,
  ): Promise<GitBody> {
    if (step === 'refs') return NO_BODY
    const bytes = bodyLimit(service, limits.maxBytes)
    if (observer) return openPushBody(raw, reply.raw, { bytes, minimumRate: limits.minimumRate }, observer)
    return readFetchBody(raw, reply.raw, client.address, { bytes, timeout: bodyTimeout, memory })
  }

  async function start(
    request: FastifyRequest,
    repository: RepositoryAccess,
    { pusher, ...call }: GitCall,
    body: GitBody,
    observer: PushObserver | null,
  ): Promise<HttpBackend> {
    const { path, managed } = repository
    const connection = connectionSignal(request.raw.socket)
    const gone = body.lost === null ? connection : AbortSignal.any([connection, body.lost])
    const leave = await slots[call.service].enter(request.client.address, gone)
    try {
      await checkRepositoryFiles(path)
      const gate = pusher && (await rules.openGate(pusher))
      const mayMoveHead = async (branch: string) => pusher !== null && rules.mayMoveHead(pusher, branch)
      gone.throwIfAborted()
      const backend = new HttpBackend(
        { ...call, path, managed, gate, mayMoveHead, observer },
        limits.timeout,
        (end, stderr) => {
          leave()
          connection.removeEventListener('abort', stop)
          const { service } = call
          if (stderr !== '')
            request.server.log.info(
              { reqId: request.id, service, path, end, stderr },
              'git wrote to standard error',
            )
          return pusher && observer ? recorder.record(pusher, path, observer.result()) : undefined
        },
      )
      const stop = () => backend.stop(connection.reason)
      connection.addEventListener('abort', stop)
      return backend
    } catch (error) {
      leave()
      throw error
    }
  }

  return async (request, reply, repository, call) => {
    const observer = call.pusher ? new PushObserver() : null
    const body = await receive(request, reply, call, observer)
    try {
      return await exchange(await start(request, repository, call, body, observer), body)
    } catch (error) {
      body.discard()
      if (error instanceof QueueFull) throw new ServiceError('git_busy', undefined, { cause: error })
      if (!(error instanceof BackendTimeout)) throw error
      if (!request.raw.complete) throw new ServiceError('too_slow')
      throw new ServiceError('unavailable', undefined, { cause: error })
    }
  }
}

/** Passes the body to git and returns git's answer. Stops git if one of them fails. */
async function exchange(backend: HttpBackend, body: GitBody): Promise<Readable> {
  try {
    const received = body.passTo(backend.input)
    const answer = await backend.answer(received)
    // The rest of the body may still be refused. Then the answer is cut off.
    received.catch((error: Error) => backend.stop(error))
    return answer
  } catch (error) {
    backend.stop(new ServiceError('unavailable'))
    throw error
  }
}
