import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { KeepAliveClient, requestBytes } from '../../helpers/keep-alive.ts'
import { Tally } from './figures.ts'

const PAUSE = 50
/** Loopback address of well-meaning clients. */
const ADDRESS = '127.0.0.1'

/**
 * Asks for a path again and again, on one connection at a time, while `work` goes on: in a process
 * of its own, since starting a program stops this one for many milliseconds.
 *
 * @param pause milliseconds between two requests
 */
export async function whileReading(url: string, work: () => Promise<unknown>, pause = PAUSE): Promise<Tally> {
  const reader = fork(import.meta.filename, [url, String(pause)])
  const results = once(reader, 'message')
  try {
    await work()
  } finally {
    reader.send('stop')
  }
  const [tally] = await results
  return Object.assign(new Tally(), tally)
}

async function read(url: string, pause: number): Promise<Tally> {
  const tally = new Tally()
  let client = await KeepAliveClient.open(url, ADDRESS)
  const { pathname, search } = new URL(url)
  const request = requestBytes('GET', pathname + search)
  let done = false
  process.once('message', () => {
    done = true
  })
  while (!done) {
    // A proxy closes a connection after many requests.
    if (!client.isOpen) client = await KeepAliveClient.open(url, ADDRESS)
    await tally.measure(async () => {
      const { status } = await client.send(request)
      return status === 200 ? null : `${status}`
    })
    await setTimeout(pause)
  }
  client.close()
  return tally
}

if (import.meta.main) {
  const [, , url = '', pause] = process.argv
  process.send?.(await read(url, Number(pause)))
}
