import { backoff } from './backoff.ts'
import { type Answer, type Outcome, unanswered } from './exchange.ts'
import type { Gate } from './gate.ts'
import { sleep } from './sleep.ts'

export interface AttemptOptions {
  /** Bound of one try, in milliseconds. */
  timeout: number
  /** When all tries have to be over, by `performance.now()`. */
  deadline: number
  /** The caller's. */
  signal: AbortSignal | undefined
  /** Aborted when a newer request makes further tries pointless. */
  superseded: AbortSignal | undefined
}

/**
 * Tries until there is an answer that another try would not change, or the time is over, and gives the last answer.
 *
 * @throws the signal's reason once it is aborted.
 */
export async function attempt(
  gate: Gate,
  send: (signal: AbortSignal) => Promise<Outcome>,
  { timeout, deadline, signal, superseded }: AttemptOptions,
): Promise<Answer> {
  const left = () => deadline - performance.now()
  for (let index = 0; ; index++) {
    signal?.throwIfAborted()
    const refusal = gate.refusal()
    if (refusal) return notSent(refusal)
    const pause = gate.pause()
    if (pause) {
      if (pause.milliseconds >= left() || superseded?.aborted) return pause.answer
      await sleep(pause.milliseconds, signal, superseded)
      continue
    }
    if (left() <= 0) return unanswered('not sent: the time was over before its turn came')
    const { answer, retry } = await sendOnce(send, Math.min(timeout, left()), signal)
    signal?.throwIfAborted()
    gate.note(answer)
    const delay = backoff(index)
    if (!retry || superseded?.aborted || delay >= left()) return answer
    await sleep(delay, signal, superseded)
    if (superseded?.aborted) return answer
  }
}

async function sendOnce(
  send: (signal: AbortSignal) => Promise<Outcome>,
  milliseconds: number,
  signal: AbortSignal | undefined,
): Promise<Outcome> {
  // AbortSignal.any of AbortSignal.timeout can be garbage collected before it fires (Node 20).
  const controller = new AbortController()
  const stop = () => controller.abort(signal?.reason)
  const timer = setTimeout(
    () => controller.abort(new Error(`nothing came for ${Math.round(milliseconds)} ms`)),
    milliseconds,
  )
  signal?.addEventListener('abort', stop)
  try {
    return await send(controller.signal)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

function notSent({ status, body, headers }: Answer): Answer {
  const told = typeof body === 'object' && body !== null && 'error' in body ? `: ${body.error}` : ''
  return {
    status,
    body: { error: `not sent, since an earlier request was answered ${status}${told}` },
    headers,
  }
}
