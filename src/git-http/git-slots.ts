import type { GitService } from '../git/http-backend.ts'
import { FairQueue } from '../util/fair-queue.ts'

/**
 * Requests that may wait for a slot, in total and from one client address. The total is many times the limit of one
 * address, so that a few addresses cannot fill it.
 */
const WAITING = 1024
const WAITING_PER_CLIENT = 128

/**
 * Divides the slots for git processes between fetches and pushes. A quarter, at least one, is reserved for pushes. They
 * need write access, so anonymous fetches cannot block them. The list of refs at the start of a fetch or push takes a slot
 * of the same share. A single slot serves both.
 *
 * In each share one client address holds at most half of the slots, but at least one.
 *
 * @param slots number of requests that git handles at a time
 * @param maxWait milliseconds that a request may wait for a slot
 */
export function divideGitSlots(slots: number, maxWait: number): Record<GitService, FairQueue> {
  const pushes = Math.max(1, Math.floor(slots / 4))
  const push = share(pushes, maxWait)
  const fetch = slots === pushes ? push : share(slots - pushes, maxWait)
  return { 'git-upload-pack': fetch, 'git-receive-pack': push }
}

function share(slots: number, timeout: number): FairQueue {
  return new FairQueue({
    slots,
    slotsPerClient: Math.max(1, Math.floor(slots / 2)),
    waiting: WAITING,
    waitingPerClient: WAITING_PER_CLIENT,
    timeout,
  })
}
