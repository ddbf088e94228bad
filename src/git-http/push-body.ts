import type { IncomingMessage, ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import type { PushObserver } from '../git/push-observer.ts'
import { tooLarge } from '../http/body.ts'
import { ArrivingBody, type GitBody } from './body.ts'
import { type MinimumRate, RateWatch } from './rate-watch.ts'

interface PushBodyLimits {
  /** Largest body in bytes, counted while reading and after decompression. */
  bytes: number
  minimumRate: MinimumRate
}

/**
 * Waits for the first byte of a push. `passTo` of the result writes the rest to git as it arrives. Data that arrives after
 * git has stopped reading is discarded, because a client sends the whole body before it reads the answer.
 *
 * `passTo` throws ServiceError `body_too_large`, `body_not_gzip`, and the same errors as this function.
 *
 * @param observer receives the body, decompressed
 * @throws ServiceError `too_slow`, or `malformed_request` if the client disconnects
 */
export async function openPushBody(
  request: IncomingMessage,
  response: ServerResponse,
  { bytes, minimumRate }: PushBodyLimits,
  observer: PushObserver,
): Promise<GitBody> {
  const body = new ArrivingBody(request, response)
  const watch = new RateWatch(minimumRate, () => body.cutOff())
  watch.resume()
  await body.begin().finally(() => watch.pause())
  return {
    lost: body.lost,
    async passTo(input) {
      watch.resume()
      await body.pipe(gitInput(input, bytes, watch, observer)).finally(() => watch.stop())
    },
    discard() {},
  }
}

/** Returns a stream to git that pauses the watch while git has not read a chunk, because the client cannot send then. */
function gitInput(input: Writable | null, limit: number, watch: RateWatch, observer: PushObserver): Writable {
  let length = 0
  let isRead = input !== null
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      length += chunk.length
      if (length > limit) return done(tooLarge(limit))
      observer.request(chunk)
      watch.pause(chunk.length)
      const next = (error?: Error | null) => {
        if (error) isRead = false
        watch.resume()
        done()
      }
      if (isRead && input?.writable) input.write(chunk, next)
      else next()
    },
    final(done) {
      input?.end()
      done()
    },
  })
}
