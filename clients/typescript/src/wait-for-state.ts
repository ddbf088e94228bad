import type { ListStatusesInput, ListStatusesResult, Operations } from './generated/operations.ts'
import type { components } from './generated/schema.ts'
import { sleep } from './sleep.ts'

type CommitStatuses = components['schemas']['CommitStatuses']
type Read = Operations<{
  signal?: AbortSignal | undefined
  totalTimeout?: number | undefined
  ifNoneMatch?: string | undefined
}>['listStatuses']

export interface WaitOptions {
  /** Contexts that have to report; none by default. */
  require?: readonly string[] | undefined
  /** Longest time to wait, in milliseconds; 10 minutes by default. */
  timeout?: number | undefined
  /** First pause between two reads, in milliseconds; 1,000 by default. It grows while nothing changes, to 10 times. */
  interval?: number | undefined
  /** Ends the wait, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** Called after each change, and after the first read. */
  onChange?: ((progress: WaitProgress) => void) | undefined
}

export interface WaitProgress extends CommitStatuses {
  /** Required contexts that have not reported yet. */
  missing: string[]
}

/** How a wait ended. */
export type WaitResult =
  /** Every required context has reported, and the combined state is final. */
  | ({ outcome: 'success' | 'failure' } & WaitProgress)
  /** At the timeout the combined state was `pending`, or nothing had reported. */
  | ({ outcome: 'pending' } & WaitProgress)
  /** At the timeout a required context had not reported. */
  | ({ outcome: 'missing' } & WaitProgress)
  /** The service refused, or was not reached by all tries of one read. */
  | { outcome: 'unanswered'; answer: Failure }

type Failure = Exclude<ListStatusesResult, { status: 200 | 304 }>

/** Waits until every required context has reported and the combined state over all contexts is final. */
export type WaitForState = (input: ListStatusesInput, options?: WaitOptions) => Promise<WaitResult>

const TRIES = 30_000
/** The read at the timeout may take so long. */
const LAST_READ = 5_000

/** Makes `waitForState` out of the read operation. It polls with the last answer's `ETag`. */
export function waitForStateOver({ listStatuses }: { listStatuses: Read }): WaitForState {
  return async (input, { require = [], timeout = 600_000, interval = 1_000, signal, onChange } = {}) => {
    const deadline = performance.now() + timeout
    const left = () => deadline - performance.now()
    let known: { etag: string | undefined; progress: WaitProgress } | undefined
    for (let pause = interval; ; pause = Math.min(pause * 1.5, interval * 10)) {
      const totalTimeout = Math.min(TRIES, Math.max(left(), LAST_READ))
      const answer = await listStatuses(input, { signal, totalTimeout, ifNoneMatch: known?.etag })
      if (answer.status === 200) {
        const progress = progressOf(answer.body, require)
        known = { etag: answer.headers.get('etag') ?? undefined, progress }
        onChange?.(progress)
        pause = interval
      } else if (answer.status !== 304) return { outcome: 'unanswered', answer }
      if (known) {
        const outcome = outcomeOf(known.progress)
        if (outcome === 'success' || outcome === 'failure' || left() <= 0)
          return { outcome, ...known.progress }
      }
      // Between three quarters of the pause and all of it: many waiting jobs spread.
      await sleep(Math.min(pause * (0.75 + Math.random() / 4), left()), signal)
      signal?.throwIfAborted()
    }
  }
}

function progressOf(body: CommitStatuses, require: readonly string[]): WaitProgress {
  const reported = new Set(body.statuses.map(({ context }) => context))
  return { ...body, missing: require.filter((context) => !reported.has(context)) }
}

function outcomeOf({ state, missing }: WaitProgress): 'success' | 'failure' | 'pending' | 'missing' {
  if (missing.length > 0) return 'missing'
  return state ?? 'pending'
}
