import { retryAfter } from '../../backoff.ts'
import type { ReportStatusResult, StatusReport } from '../../index.ts'
import { sleep } from '../../sleep.ts'
import { isOutage, type Repository } from './repository.ts'

/**
 * The claim of a run on a commit. Every report of the run has `claim`, its result too, so the server
 * alone decides by its own clock who has the commit:
 *
 *             201                  201
 *    take() ───────▶ held ──────────────────▶ stored       finish()
 *      │             │  ▲ │
 *      │ 409         │  │ │ 409, or refused until the claim has run out
 *      ▼             │  │ ▼
 *    not taken       │  │ lost ─▶ the command is ended, and nothing more is reported
 *           no answer│  │201
 *                    ▼  │
 *                    away: the command goes on, however long this lasts
 *
 * An outage may outlast the claim, and another worker may take the commit meanwhile. Then the next
 * report that is answered gets 409. If nobody has taken the commit, that report takes it back.
 */
export interface Claim {
  /** Asks for the commit. Waits for the end of an outage until `stop` is aborted, and for an answer until `hurry`. */
  take(stop: AbortSignal, hurry: AbortSignal): Promise<Taken>
  /** Aborted once another run has the commit, or the claim has run out while the server refused. */
  lost: AbortSignal
  /** Why it was aborted. */
  readonly loss: Loss | undefined
  /** Reports `pending` now. Returns whether the run still has the commit. */
  renew(): Promise<boolean>
  /**
   * Sends the result until it is answered or refused for longer than the claim lasts, and for a few more
   * seconds once `hurry` is aborted.
   */
  finish(result: Result, hurry: AbortSignal): Promise<'stored' | 'unanswered' | Loss>
}

export interface Result {
  state: StatusReport['state']
  description: string
}

/** The answer to a report with `claim`. */
type Taken =
  | { kind: 'held' }
  /** Stored by a server that does not know claims. */
  | { kind: 'outdated' }
  /** Not to be asked for again for so many seconds; infinite over a result. */
  | { kind: 'taken'; seconds: number; reason: string }
  | { kind: 'refused'; reason: string }
  | { kind: 'away' }

/** Why a run does not have its commit. */
export type Loss = Extract<Taken, { kind: 'taken' | 'refused' }>

export interface ClaimTimes {
  /** Seconds for which each report claims the commit. */
  claim: number
  /** Milliseconds between two reports. */
  renewal: number
  /** Milliseconds after which a server that refused is asked again. */
  refusal: number
}

interface ClaimOptions {
  repository: Repository
  sha: string
  run: string
  targetUrl: string | undefined
  times: ClaimTimes
}

/** Longest `elapsed` of the contract, in milliseconds: 30 days. */
const LONGEST = 30 * 86_400_000
/** Milliseconds for the last report once nobody wants to wait for it. */
const LAST_CHANCE = 10_000
/** Milliseconds after an attempt, which has itself retried for the time limit of a request. */
const AWAY = 1_000

/** Creates the claim of a run that begins now. */
export function createClaim({ repository, sha, run, targetUrl, times }: ClaimOptions): Claim {
  const began = performance.now()
  const lost = new AbortController()
  const isOver = new AbortController()
  let loss: Loss | undefined
  /** When the last report that was stored had been sent. */
  let held = Number.NEGATIVE_INFINITY

  async function send({ state, description }: Result): Promise<Taken> {
    const sentAt = performance.now()
    const answer = await repository.report(sha, {
      state,
      description,
      context: repository.context,
      run,
      claim: times.claim,
      ...(targetUrl && { target_url: targetUrl }),
      // Read at each attempt, from a clock that nobody sets.
      get elapsed() {
        return Math.round(Math.min(performance.now() - began, LONGEST))
      },
    })
    if (answer.status === 201) held = sentAt
    return readAnswer(answer)
  }

  /** Sends a report until the answer decides, or a signal is aborted. */
  async function insist(report: Result, ...signals: AbortSignal[]): Promise<Taken> {
    for (;;) {
      const sent = await send(report)
      if (isAnswer(sent)) return sent
      await sleep(sent.kind === 'away' ? AWAY : times.refusal, ...signals)
      if (signals.some(({ aborted }) => aborted)) return sent
    }
  }

  /** Returns whether an answer decides: one that refuses does once the claim has run out. */
  function isAnswer({ kind }: Taken): boolean {
    const hasRunOut = performance.now() - held >= times.claim * 1_000
    return kind !== 'away' && (kind !== 'refused' || hasRunOut)
  }

  async function renew(): Promise<boolean> {
    const sent = await insist(running, isOver.signal)
    if ((sent.kind !== 'taken' && sent.kind !== 'refused') || isOver.signal.aborted) return true
    loss = sent
    lost.abort()
    return false
  }

  async function keep(): Promise<void> {
    const ended = [isOver.signal, lost.signal]
    while (!ended.some(({ aborted }) => aborted)) {
      await sleep(held + times.renewal - performance.now(), ...ended)
      if (!ended.some(({ aborted }) => aborted)) await renew()
    }
  }

  return {
    lost: lost.signal,
    get loss() {
      return loss
    },
    renew,
    async take(stop, hurry) {
      const taken = await Promise.race([insist(running, stop), after(hurry, 0)])
      if (taken.kind === 'held') void keep()
      return taken
    },
    async finish(result, hurry) {
      isOver.abort()
      const sent = await Promise.race([insist(result, hurry), after(hurry, LAST_CHANCE)])
      if (sent.kind === 'away' || !isAnswer(sent)) return 'unanswered'
      return sent.kind === 'held' || sent.kind === 'outdated' ? 'stored' : sent
    },
  }
}

const running: Result = { state: 'pending', description: 'running' }

async function after(signal: AbortSignal, milliseconds: number): Promise<Taken> {
  if (!signal.aborted)
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  await new Promise((resolve) => setTimeout(resolve, milliseconds).unref())
  return { kind: 'away' }
}

function readAnswer(answer: ReportStatusResult): Taken {
  if (answer.status === 201) return { kind: answer.body.claimed_until === undefined ? 'outdated' : 'held' }
  const reason = answer.body.error
  // Over a result there is no Retry-After.
  const seconds = retryAfter(answer.headers) ?? Number.POSITIVE_INFINITY
  if (answer.status === 409) return { kind: 'taken', seconds, reason }
  return isOutage(answer) ? { kind: 'away' } : { kind: 'refused', reason }
}
