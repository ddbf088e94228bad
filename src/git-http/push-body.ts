import type { IncomingMessage, ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import { ArrivingBody, type GitBody, tooLarge } from './body.ts'
import { type MinimumRate, RateWatch } from './rate-watch.ts'

interface PushBodyLimits {
  /** Largest body in bytes, counted while reading and after decompression. */
  bytes: number
  minimumRate: MinimumRate
}

/**
 * Waits for the first byte of a push. The rest is passed to git as it arrives. Whatever arrives after git has stopped
 * reading is thrown away, since a client sends everything before it looks at the answer.
 *
 * `passTo` of the result throws ServiceError `body_too_large`, `body_not_gzip`, and the same as this function.
 *
 * @throws ServiceError `too_slow`, or `malformed_request` when the client went away
 */
export async function openPushBody(
  request: IncomingMessage,
  response: ServerResponse,
  { bytes, minimumRate }: PushBodyLimits,
): Promise<GitBody> {
  const body = new ArrivingBody(request, response)
  const watch = new RateWatch(minimumRate, () => body.cutOff())
  watch.resume()
  await body.begin().finally(() => watch.pause())
  return {
    lost: body.lost,
    async passTo(input) {
      watch.resume()
      await body.pipe(gitInput(input, bytes, watch)).finally(() => watch.stop())
    },
    discard() {},
  }
}

/** Pauses the watch while git has not taken a chunk: the client cannot go on then. */
function gitInput(input: Writable | null, limit: number, watch: RateWatch): Writable {
  let length = 0
  let isRead = input !== null
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      length += chunk.length
      if (length > limit) return done(tooLarge(limit))
      watch.pause(chunk.length)
      const taken = (error?: Error | null) => {
        if (error) isRead = false
        watch.resume()
        done()
      }
      if (isRead && input?.writable) input.write(chunk, taken)
      else taken()
    },
    final(done) {
      input?.end()
      done()
    },
  })
}
