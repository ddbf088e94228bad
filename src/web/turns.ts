import type { FastifyRequest } from 'fastify'
import { FairQueue, type FairQueueLimits } from '../util/fair-queue.ts'

/** Of requests that wait to begin; the others are refused. Times are milliseconds. */
const BEGIN: FairQueueLimits = {
  places: 1,
  placesPerClient: 1,
  waiting: 1_000,
  waitingPerClient: 250,
  timeout: 10_000,
}
/** Of those that have begun: none is refused half-way for the sake of one that comes later. */
const CONTINUE: FairQueueLimits = {
  ...BEGIN,
  waiting: Number.POSITIVE_INFINITY,
  waitingPerClient: Number.POSITIVE_INFINITY,
  timeout: 60_000,
}

/** Waits until it is the request's turn. @throws QueueFull; the reason of the request's signal when the client is gone */
type Wait = (request: FastifyRequest) => Promise<void>

export interface Turns {
  /** To begin with its work. */
  begin: Wait
  /** To do one step more. */
  next: Wait
}

/**
 * Divides the work on pages into steps. In each turn of the event loop one page begins and another one does one step
 * more, however many are asked for: so reads and reports wait for two steps at most. The addresses that ask for pages
 * take turns.
 *
 * A step is what a page does from here to the next `await` that takes longer than the turn of the event loop. It should
 * take a few milliseconds at most.
 */
export function createTurns(): Turns {
  const [toBegin, toContinue] = [new FairQueue(BEGIN), new FairQueue(CONTINUE)]
  const wait = async (queue: FairQueue, request: FastifyRequest) => {
    const release = await queue.enter(request.client.address, request.signal)
    setImmediate(release)
  }
  return { begin: (request) => wait(toBegin, request), next: (request) => wait(toContinue, request) }
}
