import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Pusher } from '../domain/actors.ts'
import type { RefRefusal, RefusalKind } from '../domain/ref-updates.ts'
import { ServiceError } from '../errors.ts'
import type { GarbageCollector } from '../git/collect-garbage.ts'
import { type OpenedRepository, openRepository } from '../git/opened-repository.ts'
import { checkObjects } from '../git/repository-health.ts'
import type { GitEnd } from '../git/run-git.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import { ownTurn } from '../schedule/own-turn.ts'
import { SharedBudget } from '../schedule/shared-budget.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { AddGauge } from '../util/gauge.ts'
import { type Body, createBodyReceiver } from './body.ts'
import { createGitPlaces } from './git-places.ts'
import type { GitLimits } from './limits.ts'
import { type PushRequest, readCommands } from './push/commands.ts'
import { Push, type PushOptions } from './push/push.ts'
import { EMPTY_PACKET, progress } from './push/report.ts'
import { PushRefusals } from './refusals.ts'
import { type GitRequest, startService } from './service.ts'
import type { Spool } from './spool.ts'
import { SpooledStream } from './spooled-stream.ts'

/** Part of the disk for answers that one client may use. */
const ANSWERS_OF_CLIENT = 1 / 4

const WAITING = 'The server is busy, and the push waits for its turn.'
const TOO_LONG = 'Git took longer than it may here, and was stopped.'

/** A request on its way to git. */
interface Run {
  call: GitRequest
  /** null for the list of refs. */
  body: Body | null
  /** What a push asks for, once it is known. */
  pushRequest: PushRequest | null
  answer: SpooledStream
  /** Milliseconds after which git is stopped. */
  timeout: number
  /** Whether it may keep its place longer than others wait for one. */
  isLong: boolean
  /** Stops git. */
  stop: AbortController
  /** Whether git has ended, and the place is free. */
  hasEnded: boolean
  /** Aborts when nobody waits for the answer, or the body has given way. */
  whileWanted: AbortSignal
}

export interface GitServerOptions {
  limits: GitLimits
  spool: Spool
  /** Milliseconds in which the body of a fetch must arrive. */
  bodyTimeout: number
  pushes: Pick<PushOptions, 'store' | 'recorder' | 'presence' | 'syncFolders' | 'turns' | 'onError'>
  garbage: GarbageCollector
  /** Called once for each kind of reason why refs of a push were refused. */
  onPushRefused(kind: RefusalKind): void
  addGauge?: AddGauge | undefined
}

/**
 * Creates a function that runs git for a request and returns its answer. git never waits for a
 * client, unless the disk for answers is used up:
 *
 * ```
 *   list of refs ──────────────────────────────────────┐
 *   fetch ── whole body as sent: memory, then disk ────┼──▶ waits for a place ──▶ git runs ──▶ place free
 *   push ─── whole body on disk (bounded, or refused) ─┘    (fair, bounded)       │
 *              after 5 s: 200, and packets that         │                          ▼
 *              keep the connection alive ───────────────┘  client ◀── answer: memory, then disk
 *                                                                                 │ no room
 *                                                                                 ▼
 *                                            git waits ── others wait for the place ──▶ the answer is cut
 * ```
 *
 * When the client disconnects, its request leaves the queue, or git is stopped.
 */
export function createGitServer(options: GitServerOptions) {
  const { limits, spool, bodyTimeout, pushes, garbage, onPushRefused, addGauge } = options
  const refusals = new PushRefusals(onPushRefused)
  const places = createGitPlaces(limits.maxChildren, limits.maxWait)
  const pushDisk = new SharedBudget(spool.bytes)
  const answerDisk = new SharedBudget(spool.bytes, spool.bytes * ANSWERS_OF_CLIENT)
  const answerMemory = new SharedBudget(limits.answerMemory.all)
  const receive = createBodyReceiver(limits, bodyTimeout, { spool, pushes: pushDisk, fetches: answerDisk })
  if (addGauge) addGauges(addGauge, places, pushDisk, answerDisk, spool)

  function createRun(call: GitRequest, body: Body | null): Run {
    const { request, service, client, pusher } = call
    const stop = new AbortController()
    const connection = connectionSignal(request.raw.socket)
    const whileWanted = body ? AbortSignal.any([connection, body.displaced]) : connection
    const room = {
      client,
      memory: { bytes: limits.answerMemory.each, budget: answerMemory },
      disk: { spool, budget: answerDisk },
    }
    const timeout = body?.timeout ?? limits.timeout
    const isLong = pusher !== null && timeout > limits.pushTime.short
    const giveUp = () => {
      stop.abort(new ServiceError('git_busy'))
      return !run.hasEnded
    }
    const answer = new SpooledStream(room, () => places[service].pause(client, isLong, giveUp))
    const pushRequest = body?.request ?? null
    const state = { pushRequest, answer, stop, hasEnded: false }
    const run: Run = { call, body, timeout, isLong, ...state, whileWanted }
    return run
  }

  function createPush(call: GitRequest, pusher: Pusher, pushRequest: PushRequest): Push {
    const { request, repository, authorizeAgain } = call
    const repositoryUrl = `${request.client.origin()}/${pusher.repositoryName}`
    return new Push({ ...pushes, pusher, repository, repositoryUrl, request: pushRequest, authorizeAgain })
  }

  /**
   * Runs git in a place of its share, and lets it write the answer. The body is closed when git has
   * ended, and if this throws or refuses, unless there was no place.
   *
   * @param maxWait longest wait for a place, in milliseconds
   * @returns why git must not decide about a push; null if git has begun
   */
  async function runInPlace(run: Run, maxWait: number): Promise<RefRefusal | null> {
    const { call, body, timeout, isLong, answer, stop, whileWanted } = run
    const { repository, service, client, pusher, authorizeAgain } = call
    const leave = await places[service].enter(client, whileWanted, isLong, maxWait)
    body?.keep()

    const signal = AbortSignal.any([whileWanted, stop.signal])
    const timer = setTimeout(() => {
      const cause = new Error('git took too long')
      stop.abort(new ServiceError('unavailable', TOO_LONG, { cause }))
    }, timeout)

    let push: Push | null = null
    let opened: OpenedRepository | null = null
    let hasStarted = false
    const end = async (ended?: GitEnd) => {
      if (ended) logEnd(call, ended)
      run.hasEnded = true
      leave()
      body?.close()
      clearTimeout(timer)
      if (push) refusals.record(call, push.refused)
      await push?.end(hasStarted)
      if (push && opened) void garbage.collect(opened)
    }

    let begun: Promise<void>
    try {
      const pushRequest = pusher && (await requestOf(run))
      opened = await openServable(repository)
      // The request may have been arriving or waiting for minutes.
      await authorizeAgain()
      if (pushRequest) {
        push = createPush(call, pusher, pushRequest)
        const refusal = await push.begin(opened, signal)
        if (refusal !== null) {
          await end()
          return refusal
        }
      }
      const content = (await body?.open(signal)) ?? null
      // To start a process blocks the event loop for milliseconds.
      await ownTurn()
      signal.throwIfAborted()
      const reportFailure = (error: unknown) =>
        pushRequest && !whileWanted.aborted ? refusals.fail(call, pushRequest, error) : null
      const { syncFolders } = pushes
      hasStarted = true
      const options = { body: content, push, syncFolders, answer, signal, timeout, reportFailure, onEnd: end }
      begun = startService(opened, call, options)
    } catch (error) {
      await end()
      throw error
    }
    await begun
    return null
  }

  async function runFetch(call: GitRequest, body: Body | null): Promise<Readable> {
    const run = createRun(call, body)
    try {
      await runInPlace(run, limits.maxWait)
      return run.answer
    } catch (error) {
      body?.close()
      throw error
    }
  }

  /** Runs git for a push. Returns the answer if git does not begin one. */
  async function refusalOf(run: Run, body: Body): Promise<Buffer | null> {
    const { call } = run
    try {
      if (body.refusal) throw body.refusal
      const refusal = await runInPlace(run, body.sideband ? limits.timeout : limits.maxWait)
      return refusal && refusals.refuse(call, await requestOf(run), refusal)
    } catch (cause) {
      return refusals.fail(call, await requestOf(run).finally(() => body.close()), cause)
    }
  }

  /**
   * Runs git for a push. Whatever refuses it is said in the report that git would give, since git
   * prints nothing else.
   *
   * A push whose client can be kept waiting waits long for a place, because the client would have to
   * send everything again.
   */
  async function runPush(call: GitRequest, body: Body): Promise<Readable | Buffer> {
    const run = createRun(call, body)
    const { answer } = run
    const refused = refusalOf(run, body)
    if (!body.sideband) return (await refused) ?? answer

    const late = Symbol('late')
    refused.catch(() => {})
    const first = await Promise.race([refused, delay(limits.keepAlive, late, { ref: false })])
    if (first !== late) return first ?? answer

    answer.write(progress(WAITING))
    const keepAlive = setInterval(() => answer.write(EMPTY_PACKET), limits.keepAlive)
    refused
      .finally(() => clearInterval(keepAlive))
      .then(
        (refusal) => refusal && answer.end(refusal),
        (error: Error) => answer.destroy(error),
      )
    return answer
  }

  return async (call: GitRequest): Promise<Readable | Buffer> => {
    const body = call.step === 'rpc' ? await receive(call) : null
    if (body?.isEmpty) {
      body.close()
      await openServable(call.repository)
      return Buffer.alloc(0)
    }
    return body && call.pusher ? runPush(call, body) : runFetch(call, body)
  }
}

/** Returns what a push asks for. @throws Error unless it is a push */
async function requestOf(run: Run): Promise<PushRequest> {
  if (run.pushRequest) return run.pushRequest
  const file = run.body?.file
  if (!file) throw new Error('a push was not received into a file')
  run.pushRequest = await readCommands(file)
  return run.pushRequest
}

/** Logs what git has written to standard error. */
function logEnd({ request, service, repository }: GitRequest, { code, stderr }: GitEnd): void {
  const details = { reqId: request.id, service, path: repository.path, code, stderr }
  // A stranger can cause any number of malformed requests.
  const level = request.caller ? 'info' : 'debug'
  if (stderr !== '') request.server.log[level](details, 'git wrote to standard error')
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
