import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Html } from './layout.ts'
import type { Turns } from './turns.ts'

/** Characters of a page that are made in one step. */
const SLICE = 64 * 1024

/**
 * Sends a page as it is made. A short one goes out as a whole; of a long one the client gets a part, and no more of it
 * is made until the client has read that, so that no page is ever in memory as a whole.
 */
export async function sendPieces(
  request: FastifyRequest,
  reply: FastifyReply,
  pieces: AsyncIterable<Html>,
  turns: Turns,
): Promise<FastifyReply> {
  const slices = slicesOf(pieces, () => turns.next(request))
  const first = await slices.next()
  reply.type('text/html; charset=utf-8')
  if (first.done) return reply.send(first.value)
  // Of an answer to HEAD nothing but the headers is sent.
  return reply.send(Readable.from(request.method === 'HEAD' ? [] : resume(first.value, slices)))
}

/** Yields the text in slices, each in a turn of its own, and returns the last one. */
async function* slicesOf(
  pieces: AsyncIterable<Html>,
  nextTurn: () => Promise<void>,
): AsyncGenerator<string, string> {
  let text = ''
  await nextTurn()
  for await (const piece of pieces) {
    text += piece
    if (text.length < SLICE) continue
    yield text
    text = ''
    await nextTurn()
  }
  return text
}

async function* resume(first: string, slices: AsyncGenerator<string, string>): AsyncGenerator<string> {
  yield first
  yield yield* slices
}
