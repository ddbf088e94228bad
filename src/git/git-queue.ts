import { FairQueue } from '../util/fair-queue.ts'

/** Returns slots for the git processes of pages: a few at a time, shared fairly between clients. */
export function createGitQueue(): FairQueue {
  return new FairQueue({
    slots: 4,
    slotsPerClient: 2,
    waiting: 1_000,
    waitingPerClient: 250,
    timeout: 10_000,
  })
}
