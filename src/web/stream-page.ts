import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Html } from './layout.ts'
import type { PageScheduler } from './page-scheduler.ts'

/** Characters of a page rendered in one step. */
const SLICE = 64 * 1024

/**
 * Sends a page while it is rendered. A short page is sent at once. A long page is rendered slice by slice as the client
 * reads it, so that it is never in memory as a whole.
 */
export async function streamPage(
  request: FastifyRequest,
  reply: FastifyReply,
  chunks: AsyncIterable<Html>,
  scheduler: PageScheduler,
): Promise<FastifyReply> {
  const slices = slicesOf(chunks, () => scheduler.step(request))
  const first = await slices.next()
  reply.type('text/html; charset=utf-8')
  if (first.done) return reply.send(first.value)
  // The answer to HEAD has headers only.
  return reply.send(Readable.from(request.method === 'HEAD' ? [] : resume(first.value, slices)))
}

/** Yields the text in slices, each rendered in its own step, and returns the last one. */
async function* slicesOf(
  chunks: AsyncIterable<Html>,
  nextStep: () => Promise<void>,
): AsyncGenerator<string, string> {
  let text = ''
  await nextStep()
  for await (const chunk of chunks) {
    text += chunk
    if (text.length < SLICE) continue
    yield text
    text = ''
    await nextStep()
  }
  return text
}

async function* resume(first: string, slices: AsyncGenerator<string, string>): AsyncGenerator<string> {
  yield first
  yield yield* slices
}
