import type { FileHandle } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { RefUpdate } from '../domain/ref-updates.ts'
import { ServiceError } from '../errors.ts'
import { checkDeclaredLength, encodingOf, receiveBody, within } from '../http/receive-body.ts'
import { SharedBudget } from '../schedule/shared-budget.ts'
import { isSystemError, nullOnSystemError } from '../util/expected-errors.ts'
import { inflate } from './inflate.ts'
import type { GitLimits } from './limits.ts'
import { type PushRequest, readCommands } from './push/commands.ts'
import { PushSink } from './push-sink.ts'
import type { GitService } from './service.ts'
import type { Spool } from './spool.ts'
import { SpooledStream } from './spooled-stream.ts'

/** git's own limit for a fetch request in memory (default of `http.maxRequestBuffer`). */
const FETCH_BYTES = 10 * 1024 * 1024
const MB = 1_000_000
/** Characters of commands that are kept while a push waits. */
const KEPT_COMMANDS = 16 * 1024
/** The body of a fetch that asks for nothing: git tries so whether it may send a large one. */
const FLUSH = '0000'

/** A whole request body. */
export interface Body {
  /** Where a push was stored; null for a fetch, and if it was not. */
  file: FileHandle | null
  /** What a push begins with. null for a fetch, and for a large one, which is read again: many may wait. */
  request: PushRequest | null
  /** Whether the client of a push takes packets before git's report. */
  sideband: boolean
  /** Whether it asks for nothing: git would answer nothing. */
  isEmpty: boolean
  /** Why it was not stored; null if it was. */
  refusal: ServiceError | null
  /** Milliseconds that git may work on it. */
  timeout: number
  /** Aborts when the body gives way to another client's. */
  displaced: AbortSignal
  /** From now on the body does not give way. */
  keep(): void
  /**
   * Returns what git reads, decompressed: a stream, or a file from its start.
   *
   * @throws ServiceError `body_too_large`, `body_not_gzip`, or 503 if there is no room; the signal's
   * reason
   */
  open(signal: AbortSignal): Promise<Readable | FileHandle | null>
  close(): void
}

/** The request of a body. */
interface BodyRequest {
  service: GitService
  request: { raw: IncomingMessage }
  reply: { raw: ServerResponse }
  /** Whose shares are used. */
  client: string
}

/** Where bodies are stored. */
interface BodyDisks {
  spool: Spool
  pushes: SharedBudget
  /** That of answers: a fetch cannot take the room of pushes. */
  fetches: SharedBudget
}

/** Returns the size limit of a request body in bytes. @param maxBytes limit for a push */
export function bodyLimit(service: GitService, maxBytes: number): number {
  return service === 'git-upload-pack' ? Math.min(FETCH_BYTES, maxBytes) : maxBytes
}

/**
 * Checks the headers of a body.
 *
 * @throws ServiceError `body_too_large` by its declared length, then `media_type_wrong`
 */
export function checkGitBodyHeaders({ headers }: IncomingMessage, service: GitService, limit: number): void {
  checkDeclaredLength(headers, limit)
  const type = `application/x-${service}-request`
  const encoding = encodingOf(headers)
  if (headers['content-type']?.trim().toLowerCase() === type && encoding !== null) return
  throw new ServiceError(
    'media_type_wrong',
    `Send the body with "Content-Type: ${type}", uncompressed or with "Content-Encoding: gzip".`,
  )
}

/**
 * Returns a function that receives a whole body, if not too many arrive. A body gives way, with 503,
 * until git works on it: see `SharedBudget`.
 *
 * @param bodyTimeout milliseconds in which the body of a fetch must arrive
 */
export function createBodyReceiver(
  limits: GitLimits,
  bodyTimeout: number,
  { spool, pushes, fetches }: BodyDisks,
) {
  const bodies = {
    'git-upload-pack': new SharedBudget(limits.maxBodies['git-upload-pack']),
    'git-receive-pack': new SharedBudget(limits.maxBodies['git-receive-pack']),
  }
  const memory = new SharedBudget(limits.bodyMemory.all)

  /**
   * Receives a fetch as it was sent: its first bytes in memory, the others on disk. It may give way, so
   * that a small one always finds room.
   *
   * What was compressed stays so until git has a place for it: a client that sends 10 KB again and
   * again must not have 10 MB stored each time, only to give way.
   */
  async function receiveFetch(
    { request, reply, client }: BodyRequest,
    displaced: AbortController,
  ): Promise<Body> {
    const room = {
      client,
      memory: { bytes: limits.bodyMemory.each, budget: memory },
      disk: { spool, budget: fetches },
    }
    // Nothing is read before all of it has arrived, so a writer without room would wait for ever.
    const instead = (stop: () => void) => () => {
      stop()
      return () => {}
    }
    const maxBytes = bodyLimit('git-upload-pack', limits.maxBytes)
    const displace = () => displaced.abort(new ServiceError('git_busy'))
    const sent = new SpooledStream({ ...room, onYield: displace }, instead(displace))
    const isZipped = encodingOf(request.raw.headers) === 'gzip'
    let content = sent
    let start = ''
    await receiveBody(request.raw, reply.raw, {
      sink: sent,
      maxBytes,
      pace: within(bodyTimeout),
      take: (chunk) => {
        if (start.length <= FLUSH.length) start += chunk.toString('latin1', 0, FLUSH.length + 1)
      },
      signal: displaced.signal,
    })
    return {
      file: null,
      request: null,
      sideband: false,
      isEmpty: start === FLUSH,
      refusal: null,
      timeout: limits.timeout,
      displaced: displaced.signal,
      keep: () => sent.keep(),
      async open(signal) {
        if (!isZipped) return sent
        const stop = () => content.destroy(new ServiceError('git_busy'))
        content = new SpooledStream(room, instead(stop))
        await inflate(sent, content, maxBytes, signal)
        return content
      },
      close() {
        sent.destroy()
        content.destroy()
      },
    }
  }

  /** Receives a push into a file. */
  async function receivePush(
    { request, reply, client }: BodyRequest,
    displaced: AbortController,
  ): Promise<Body> {
    // While it arrives, the sink decides what to do without room.
    let yieldRoom = (error: ServiceError) => displaced.abort(error)
    const holder = pushes.open(client, () => yieldRoom(new ServiceError('no_room')))
    const content = await spool.createFile().catch(nullOnSystemError)
    const sink = new PushSink(content, holder)
    yieldRoom = (error) => sink.refuse(error)

    try {
      await receiveBody(request.raw, reply.raw, {
        sink,
        maxBytes: limits.maxBytes,
        encoding: encodingOf(request.raw.headers) ?? 'identity',
        pace: limits.pace,
        hasBegun: () => sink.hasPack,
        signal: displaced.signal,
      })
      yieldRoom = (error) => displaced.abort(error)

      const pushRequest = sink.request ?? (content && (await readCommands(content)))
      if (!pushRequest) throw new ServiceError('no_room')
      const refs = pushRequest.commands.length
      const { any, megabyte, ref } = limits.pushTime
      const time = any + (megabyte * holder.held) / MB + ref * refs
      const isKept = sink.refusal !== null || lengthOf(pushRequest.commands) <= KEPT_COMMANDS
      return {
        file: content,
        request: isKept ? pushRequest : null,
        sideband: pushRequest.sideband,
        isEmpty: refs === 0,
        refusal: sink.refusal,
        timeout: Math.min(time, limits.timeout),
        displaced: displaced.signal,
        keep: holder.keep,
        open: async () => content,
        close: () => void sink.destroy(),
      }
    } catch (error) {
      sink.destroy()
      throw error
    }
  }

  /** @throws ServiceError 503 if there is no room; as `receiveBody` and `readCommands` */
  return async (call: BodyRequest): Promise<Body> => {
    const isPush = call.service === 'git-receive-pack'
    const displaced = new AbortController()
    const onYield = () => displaced.abort(new ServiceError('git_busy'))
    const arriving = bodies[call.service].open(call.client, onYield)
    if (!arriving.take(1)) throw new ServiceError('git_busy')
    try {
      return await (isPush ? receivePush : receiveFetch)(call, displaced)
    } catch (cause) {
      if (!isSystemError(cause)) throw cause
      throw new ServiceError(isPush ? 'no_room' : 'git_busy', undefined, { cause })
    } finally {
      arriving.release()
    }
  }
}

function lengthOf(commands: readonly RefUpdate[]): number {
  return commands.reduce((sum, { ref, old }) => sum + ref.length + 2 * old.length, 0)
}
