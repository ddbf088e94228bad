import type { FastifyRequest } from 'fastify'
import { connectionSignal } from '../http/connection-signal.ts'
import { FairQueue, type FairQueueLimits } from '../util/fair-queue.ts'

/** Limits of requests that wait to start; further ones are refused. Times are in milliseconds. */
const START: FairQueueLimits = {
  slots: 1,
  slotsPerClient: 1,
  waiting: 1_000,
  waitingPerClient: 250,
  timeout: 10_000,
}
/** Limits of pages that have started: none is refused half-way in favor of a later one. */
const STEP: FairQueueLimits = {
  ...START,
  waiting: Number.POSITIVE_INFINITY,
  waitingPerClient: Number.POSITIVE_INFINITY,
  timeout: 60_000,
}

/** Limits of pages whose answer is being prepared: they may wait for git. */
const PREPARE: FairQueueLimits = { ...START, slots: 500, slotsPerClient: 100 }

/** Waits for the request's turn. @throws QueueFull; ServiceError `malformed_request` when the client has disconnected */
type Wait = (request: FastifyRequest) => Promise<void>

export interface PageScheduler {
  /** Waits until a page may start. */
  start: Wait
  /** Waits for one of the slots of pages in preparation. Returns a function that releases it; later calls do nothing. */
  enter(request: FastifyRequest): Promise<() => void>
  /** Waits until a started page may run its next step. */
  step: Wait
  /** Returns a function to call between pieces of work. It waits for the next step when this one has taken long enough. */
  pace(request: FastifyRequest): () => Promise<void>
}

/** How long a step may take, in milliseconds. */
const STEP_LENGTH = 2

/**
 * Divides the rendering of pages into steps. Each iteration of the event loop starts one page and runs one step of another,
 * however many pages are requested, so that API requests wait for two steps at most. Client addresses take turns.
 *
 * A step is the work of a page up to the next `await` that outlasts the current iteration of the event loop. It should
 * take a few milliseconds at most.
 */
export function createPageScheduler(): PageScheduler {
  const [starts, steps, prepared] = [new FairQueue(START), new FairQueue(STEP), new FairQueue(PREPARE)]
  const wait = async (queue: FairQueue, request: FastifyRequest) => {
    const release = await queue.enter(request.client.address, connectionSignal(request.raw.socket))
    setImmediate(release)
  }
  return {
    start: (request) => wait(starts, request),
    enter: (request) => prepared.enter(request.client.address, connectionSignal(request.raw.socket)),
    step: (request) => wait(steps, request),
    pace(request) {
      let end = Number.NEGATIVE_INFINITY
      return async () => {
        if (performance.now() <= end) return
        await wait(steps, request)
        end = performance.now() + STEP_LENGTH
      }
    },
  }
}
