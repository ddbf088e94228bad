import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { Tally } from './figures.ts'
import type { Fixture } from './fixture.ts'

/** Milliseconds between two requests of a well-meaning client. */
const PAUSE = 50

/** Asks for a path. Resolves to null, or to what was answered instead of 200. */
export function ask(url: string, agent: Agent): Promise<string | null> {
  const { promise, resolve, reject } = Promise.withResolvers<string | null>()
  const sent = request(url, { agent, timeout: 60_000 }).on('error', reject)
  sent.on('timeout', () => sent.destroy(new Error('no answer for a minute')))
  sent.on('response', (response: IncomingMessage) => {
    const { statusCode } = response
    response
      .on('end', () => resolve(statusCode === 200 ? null : `${statusCode}`))
      .on('error', reject)
      .resume()
  })
  sent.end()
  return promise
}

/**
 * Asks for a path again and again, on one connection, while `work` goes on: in a process of its own, since starting a program
 * stops this one for many milliseconds.
 */
export async function whileReading(url: string, work: () => Promise<void>): Promise<Tally> {
  const reader = fork(import.meta.filename, [url])
  const results = once(reader, 'message')
  try {
    await work()
  } finally {
    reader.send('stop')
  }
  const [tally] = await results
  return Object.assign(new Tally(), tally)
}

async function read(url: string): Promise<Tally> {
  const tally = new Tally()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let done = false
  process.once('message', () => {
    done = true
  })
  while (!done) {
    await tally.measure(() => ask(url, agent))
    await setTimeout(PAUSE)
  }
  agent.destroy()
  return tally
}

/** The API's read of a commit with few statuses. */
export function readUrl({ url, commits }: Fixture): string {
  return `${url}/api/v1/repos/alice/demo/commits/${commits.small}/statuses`
}

if (import.meta.main) {
  const [, , url = ''] = process.argv
  process.send?.(await read(url))
}
