import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isSystemError, ServiceError } from '../errors.ts'
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
import { type GitCall, startBackend } from './backend.ts'
import { bodyLimit, type Pace, readBody } from './body.ts'
import { createGitPlaces } from './git-places.ts'
import { readCommands } from './push/commands.ts'
import { beginPush, type Push, type PushServices } from './push/push.ts'
import type { Spool } from './spool.ts'
import { SpooledStream } from './spooled-stream.ts'

export interface GitLimits {
  /** Largest push in bytes. */
  maxBytes: number
  /** Milliseconds that git may work on one request. */
  timeout: number
  /**
   * Milliseconds that git may work on a push: for any, for each MB stored, and for each ref; at
   * most `timeout`. Pushes with more than `short` hold at most half of the places of pushes.
   */
  pushTime: { any: number; megabyte: number; ref: number; short: number }
  /** Maximum number of requests that git handles at a time. */
  maxChildren: number
  /** Milliseconds that a request may wait for a place. */
  maxWait: number
  /** Number of bodies that may arrive at a time. */
  maxBodies: number
  /**
   * Bytes of memory for the body of one fetch, and for all of them. Others go to the disk of
   * answers.
   */
  bodyMemory: { each: number; all: number }
  /** Bytes of memory for one answer, and for all answers. */
  answerMemory: { each: number; all: number }
  /** How fast a push must arrive. */
  pace: Pace
}

/** Many proxies give up after 60 seconds. The difference leaves git time to begin its answer. */
const MAX_WAIT = 45_000
/** Part of the disk for answers that one client may use. */
const ANSWERS_OF_CLIENT = 1 / 4

export const DEFAULT_GIT_LIMITS: GitLimits = {
  maxBytes: 2 * 1024 ** 3,
  timeout: 600_000,
  // Many times what honest pushes need: 500 MB 14 s, 10,000 refs 5 s. Each push has a ref, so all
  // may take longer than 40 s. Up to 42 s, small ones let others in within their wait: git needs up
  // to two seconds to end. So it is not bytes, which are cheap to compress, that buy all places.
  pushTime: { any: 40_000, megabyte: 1_000, ref: 20, short: 42_000 },
  maxChildren: 16,
  maxWait: MAX_WAIT,
  // Each takes up to 110 KB beside its content, most of it for gzip.
  maxBodies: 512,
  bodyMemory: { each: 64 * 1024, all: 64 * 1024 ** 2 },
  answerMemory: { each: 1024 ** 2, all: 64 * 1024 ** 2 },
  pace: { bytes: 30 * 1024, window: 30_000 },
}

const MB = 1_000_000
/** Bytes of a push that are written at once: fewer make one of 100 MB a fifth slower. */
const WRITE_BATCH = 1024 * 1024

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

/** A whole request body. */
interface Body {
  /** What git reads: a stream, or a file from its start. */
  content: Readable | FileHandle
  /** Milliseconds that git may work on it. */
  timeout: number
  /** Aborts when the body gives way to another client's. */
  displaced: AbortSignal
  /** From now on the body does not give way. */
  keep(): void
  close(): void
}

export interface GitServerOptions {
  limits: GitLimits
  spool: Spool
  /** Milliseconds in which the body of a fetch must arrive. */
  bodyTimeout: number
  pushes: PushServices
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
 * When the client disconnects, its request leaves the queue, or git is stopped. A body gives way,
 * with 503, until git works on it: see `SharedBudget`.
 */
export function createGitServer(options: GitServerOptions) {
  const { limits, spool, bodyTimeout, pushes, garbage, addGauge } = options
  const places = createGitPlaces(limits.maxChildren, limits.maxWait)
  const bodies = new SharedBudget(limits.maxBodies)
  const pushDisk = new SharedBudget(spool.bytes)
  const answerDisk = new SharedBudget(spool.bytes, spool.bytes * ANSWERS_OF_CLIENT)
  const bodyMemory = new SharedBudget(limits.bodyMemory.all)
  const answerMemory = new SharedBudget(limits.answerMemory.all)
  if (addGauge) addGauges(addGauge, places, pushDisk, answerDisk, spool)

  /**
   * Receives the whole body of a fetch: its first bytes in memory, the others on the disk of
   * answers. It may give way until git works on it, so that a small one always finds room.
   */
  async function receiveFetch(
    { request, reply, client }: GitRequest,
    displaced: AbortController,
  ): Promise<Body> {
    const room = {
      client,
      memory: { bytes: limits.bodyMemory.each, budget: bodyMemory },
      disk: { spool, budget: answerDisk },
      onYield: () => displaced.abort(new ServiceError('git_busy')),
    }
    const content = new SpooledStream(room, () => {
      room.onYield()
      return () => {}
    })
    await readBody(request.raw, reply.raw, {
      sink: content,
      maxBytes: bodyLimit('git-upload-pack', limits.maxBytes),
      pace: { bytes: Number.POSITIVE_INFINITY, window: bodyTimeout },
      take: () => {},
      signal: displaced.signal,
    })
    const close = () => void content.destroy()
    const keep = () => content.keep()
    return { content, timeout: limits.timeout, displaced: displaced.signal, keep, close }
  }

  /** Receives a whole push into a file. It may give way until git works on it. */
  async function receivePush(
    { request, reply, client }: GitRequest,
    displaced: AbortController,
  ): Promise<Body> {
    const holder = pushDisk.open(client, () => displaced.abort(new ServiceError('no_room')))
    const content = await spool.createFile()

    // Written at offsets, so that the position of the file, from which git reads, stays at its
    // start.
    const sink = content.createWriteStream({ start: 0, autoClose: false, highWaterMark: WRITE_BATCH })
    sink.once('close', () => {
      holder.keep()
      holder.release()
    })

    try {
      await readBody(request.raw, reply.raw, {
        sink,
        maxBytes: limits.maxBytes,
        pace: limits.pace,
        take: (length) => {
          if (!holder.take(length)) throw new ServiceError('no_room')
        },
        signal: displaced.signal,
      })

      // They are not kept: many pushes may wait.
      const { commands } = await readCommands(content)
      const { any, megabyte, ref } = limits.pushTime
      const time = any + (megabyte * holder.held) / MB + ref * commands.length
      const close = () => void sink.destroy()
      const timeout = Math.min(time, limits.timeout)
      return { content, timeout, displaced: displaced.signal, keep: holder.keep, close }
    } catch (error) {
      sink.destroy()
      throw error
    }
  }

  /** Receives a whole body, if not too many arrive. @throws ServiceError 503 if there is no room */
  async function receive(call: GitRequest): Promise<Body> {
    const displaced = new AbortController()
    const arriving = bodies.open(call.client, () => displaced.abort(new ServiceError('git_busy')))
    if (!arriving.take(1)) throw new ServiceError('git_busy')
    try {
      return await (call.pusher ? receivePush : receiveFetch)(call, displaced)
    } catch (cause) {
      if (!isSystemError(cause)) throw cause
      throw new ServiceError(call.pusher ? 'no_room' : 'git_busy', undefined, { cause })
    } finally {
      arriving.keep()
      arriving.release()
    }
  }

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
        const target = { repository, opened, authorizeAgain }
        const pushOrRefusal = await beginPush(pushes, pusher, target, content, signal)
        if (Buffer.isBuffer(pushOrRefusal)) {
          await end()
          return pushOrRefusal
        }
        push = pushOrRefusal
      }
      await inTurn(() => setImmediate())
      signal.throwIfAborted()
      begun = startBackend(opened, call, { body: content, push, answer, signal, timeout, onEnd })
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
