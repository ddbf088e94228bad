import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import type { GarbageCollector } from '../git/collect-garbage.ts'
import { type OpenedRepository, openRepository } from '../git/opened-repository.ts'
import { checkObjects } from '../git/repository-health.ts'
import type { GitEnd } from '../git/run-git.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import type { ReadableRepository } from '../store/access/access.ts'
import type { Pusher } from '../store/audit/audit.ts'
import { QueueFull } from '../util/fair-queue.ts'
import type { AddGauge } from '../util/gauge.ts'
import { limitConcurrency } from '../util/limit-concurrency.ts'
import { SharedBudget } from '../util/shared-budget.ts'
import { type Body, createBodyReceiver } from './body.ts'
import { createGitPlaces } from './git-places.ts'
import type { GitLimits } from './limits.ts'
import { readCommands } from './push/commands.ts'
import { Push, type PushOptions } from './push/push.ts'
import { type GitCall, startService } from './service.ts'
import type { Spool } from './spool.ts'
import { SpooledStream } from './spooled-stream.ts'

/** Part of the disk for answers that one client may use. */
const ANSWERS_OF_CLIENT = 1 / 4

/** Each turn of the event loop starts one process, because that blocks it for milliseconds. */
const inTurn = limitConcurrency(1)

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

export interface GitServerOptions {
  limits: GitLimits
  spool: Spool
  /** Milliseconds in which the body of a fetch must arrive. */
  bodyTimeout: number
  pushes: Pick<PushOptions, 'store' | 'recorder' | 'presence' | 'onError'>
  garbage: GarbageCollector
  addGauge?: AddGauge | undefined
}

/**
 * Creates a function that runs git for a request and returns its answer. git never waits for a
 * client, unless the disk for answers is used up:
 *
 * ```
 *   list of refs ──────────────────────────────────────┐
 *   fetch ── whole body: memory, then disk ────────────┼──▶ waits for a place ──▶ git runs ──▶ place free
 *   push ─── whole body on disk (bounded, or 503) ─────┘    (fair, bounded)       │
 *                                                                                 ▼
 *                             client ◀── read as fast as it likes ◀── answer: memory, then disk
 *                                                                                 │ no room
 *                                                                                 ▼
 *                                            git waits ── others wait for the place ──▶ the answer is cut
 * ```
 *
 * When the client disconnects, its request leaves the queue, or git is stopped.
 */
export function createGitServer(options: GitServerOptions) {
  const { limits, spool, bodyTimeout, pushes, garbage, addGauge } = options
  const places = createGitPlaces(limits.maxChildren, limits.maxWait)
  const pushDisk = new SharedBudget(spool.bytes)
  const answerDisk = new SharedBudget(spool.bytes, spool.bytes * ANSWERS_OF_CLIENT)
  const answerMemory = new SharedBudget(limits.answerMemory.all)
  const receive = createBodyReceiver(limits, bodyTimeout, { spool, pushes: pushDisk, fetches: answerDisk })
  if (addGauge) addGauges(addGauge, places, pushDisk, answerDisk, spool)

  /** Runs git in a place of its share. The body is closed when git has ended, or if this throws. */
  async function runInPlace(call: GitRequest, body: Body | null): Promise<Readable | Buffer> {
    const { request, repository, service, client, pusher } = call
    const connection = connectionSignal(request.raw.socket)
    const whileWanted = body ? AbortSignal.any([connection, body.displaced]) : connection
    const place = places[service]
    const timeout = body?.timeout ?? limits.timeout
    const leave = await place.enter(client, whileWanted, pusher !== null && timeout > limits.pushTime.short)
    body?.keep()

    const stop = new AbortController()
    const signal = AbortSignal.any([whileWanted, stop.signal])
    const timer = setTimeout(() => {
      const cause = new Error('git took too long')
      stop.abort(new ServiceError('unavailable', undefined, { cause }))
    }, timeout)

    let push: Push | null = null
    let opened: OpenedRepository | null = null
    const end = async () => {
      leave()
      body?.close()
      clearTimeout(timer)
      await push?.end()
      if (push && opened) void garbage.collect(opened)
    }
    const onEnd = ({ code, stderr }: GitEnd) => {
      const details = { reqId: request.id, service, path: repository.path, code, stderr }
      // A stranger can cause any number of malformed requests.
      const level = request.caller ? 'info' : 'debug'
      if (stderr !== '') request.server.log[level](details, 'git wrote to standard error')
      return end()
    }

    const room = {
      client,
      memory: { bytes: limits.answerMemory.each, budget: answerMemory },
      disk: { spool, budget: answerDisk },
    }
    const giveUp = () => stop.abort(new ServiceError('git_busy'))
    const answer = new SpooledStream(room, () => place.pause(client, giveUp))
    const content = body?.content ?? null
    let begun: Promise<void>
    try {
      opened = await openServable(repository)
      if (pusher) {
        if (content === null || content instanceof Readable)
          throw new Error('a push was not received into a file')
        // It may have been arriving or waiting for minutes.
        const { authorizeAgain } = call
        await authorizeAgain()
        const pushRequest = body?.request ?? (await readCommands(content))
        push = new Push({ ...pushes, pusher, repository, request: pushRequest, authorizeAgain })
        const refusal = await push.begin(opened, signal)
        if (refusal !== null) {
          await end()
          return push.refuse(refusal)
        }
      }
      await inTurn(() => setImmediate())
      signal.throwIfAborted()
      begun = startService(opened, call, { body: content, push, answer, signal, timeout, onEnd })
    } catch (error) {
      await end()
      throw error
    }
    await begun
    return answer
  }

  return async (call: GitRequest): Promise<Readable | Buffer> => {
    const body = call.step === 'rpc' ? await receive(call) : null
    try {
      if (body?.isEmpty) {
        await openServable(call.repository)
        body.close()
        return Buffer.alloc(0)
      }
      return await runInPlace(call, body)
    } catch (error) {
      body?.close()
      if (error instanceof QueueFull) throw new ServiceError('git_busy', undefined, { cause: error })
      throw error
    }
  }
}

function addGauges(
  addGauge: AddGauge,
  places: ReturnType<typeof createGitPlaces>,
  pushDisk: SharedBudget,
  answerDisk: SharedBudget,
  spool: Spool,
): void {
  addGauge(
    'commit_status_git_requests',
    'Requests on which git is working, and that wait for a place, by service.',
    () =>
      Object.entries(places).flatMap(([service, { taken, waiting }]) => [
        [{ service, state: 'running' }, taken],
        [{ service, state: 'waiting' }, waiting],
      ]),
    ['service', 'state'],
  )
  addGauge(
    'commit_status_spool_bytes',
    'Bytes on disk of pushes until git has ended, and of answers of git that are not read yet.',
    () => [
      [{ content: 'pushes' }, pushDisk.taken],
      [{ content: 'answers' }, answerDisk.taken],
    ],
    ['content'],
  )
  addGauge('commit_status_disk_free_bytes', 'Free bytes on the disk of the repositories.', async () => [
    [{}, await spool.free()],
  ])
}

/** Opens a repository of which git needs all objects. @throws RepositoryUnavailable */
export async function openServable(repository: ReadableRepository): Promise<OpenedRepository> {
  const opened = await openRepository(repository)
  await checkObjects(opened.path)
  return opened
}
