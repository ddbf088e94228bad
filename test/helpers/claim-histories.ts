import { randomUUID } from 'node:crypto'
import { ServiceError, TryLater } from '../../src/errors.ts'
import type { Store } from '../../src/store/store.ts'
import { afterClaim, type ClaimedContext, type ClaimReport } from '../contract/claim-model.ts'
import { asAdministrator } from './changes.ts'
import { passTime } from './pass-time.ts'
import { createRandom } from './random.ts'

/** Histories that are reported at the same time, each to a context of its own of one commit. */
const AT_ONCE = 50
const STEPS = 12
/** Seconds that pass before each report: at least one, see `afterClaim`. */
const PAUSES = [1, 1, 1, 2, 4, 8, 15, 30, 280, 290, 310] as const
const CLAIMS = [undefined, 10, 10, 20, 300, 300] as const

/** A history: what the model knows of it, with the times between which the report was stored. */
interface History {
  context: string
  before: ClaimedContext | undefined
  /** Milliseconds by which the server may have the times of the stored report later than the model. */
  slack: number
  told: string[]
}

/** What became of the reports of all histories. */
export interface HistoryCounts {
  stored: number
  refused: number
  /** Reports so close to the end of a claim that either is right. */
  unclear: number
}

/**
 * Reports random histories of claims, of three runs and of none, and compares each answer and the
 * row after it with the model.
 *
 * @param stores of one database: each report is sent to one and read from another
 * @throws Error naming the history and its first step that differs
 */
export async function reportHistories(
  stores: readonly [Store, Store],
  seed: number,
  histories: number,
): Promise<HistoryCounts> {
  const random = createRandom(seed)
  const name = `claims-${randomUUID()}`
  const repository = { owner: 'acme', name, visibility: 'public', objectFormat: 'sha1' } as const
  const { id: repositoryId } = await asAdministrator(stores[0]).repositories.create(repository)
  const counts: HistoryCounts = { stored: 0, refused: 0, unclear: 0 }

  for (let start = 0; start < histories; start += AT_ONCE) {
    const sha = start.toString(16).padStart(40, '0')
    const began = Object.fromEntries(
      ['a', 'b', 'c'].map((run) => [
        run,
        Date.now() - random.pick([0, 3_000, 20_000]) + random.pick([0, 40_000]),
      ]),
    )
    const group = Array.from(
      { length: Math.min(AT_ONCE, histories - start) },
      (_, index): History => ({
        context: `${start + index}`,
        before: undefined,
        slack: 0,
        told: [],
      }),
    )
    let passed = 0

    const report = async (history: History, store: Store) => {
      const run = random.pick(['a', 'b', 'c', 'b', 'c', undefined])
      const state = random.pick(['pending', 'pending', 'pending', 'success', 'failure'] as const)
      const claim = run === undefined ? undefined : random.pick(CLAIMS)
      const from = Date.now()
      // A run cannot have begun later than now, and a late delivery makes it seem younger.
      const seems = Math.min(from + passed, (began[run ?? ''] ?? 0) + random.pick([0, 0, 0, 30_000]))
      const elapsed = from + passed - seems
      const description = `${history.told.length}`
      const answer = await store.statuses
        .report({
          repositoryId,
          sha,
          context: history.context,
          state,
          description,
          ...(run && { run, elapsed }),
          ...(claim && { claim }),
        })
        .then(() => 'stored' as const, refusalOf)
      const slack = Date.now() - from
      history.told.push(
        `${passed / 1000} s: ${state} ${run ?? '-'} ${elapsed} claim ${claim ?? '-'} → ${JSON.stringify(answer)}`,
      )
      compare(history, { state, run, began: seems, claim, at: from + passed }, slack, answer)
    }

    const compare = (
      history: History,
      report: ClaimReport,
      slack: number,
      answer: 'stored' | { retryAfter: number },
    ) => {
      const { before } = history
      const outcomes = [0, slack].flatMap((late) =>
        [0, history.slack].map((early) =>
          afterClaim(
            before && {
              ...before,
              status: { ...before.status, at: before.status.at + early, began: before.status.began + early },
            },
            // What the server takes for the beginning moves along.
            { ...report, at: report.at + late, began: report.began + late },
          ),
        ),
      )
      const isStored = answer === 'stored'
      const allowed = outcomes.filter((outcome) => 'stored' in outcome === isStored)
      const seconds = allowed.flatMap((outcome) => ('refused' in outcome ? [outcome.refused] : []))
      const isRight =
        isStored || (answer.retryAfter >= Math.min(...seconds) && answer.retryAfter <= Math.max(...seconds))
      if (allowed.length === 0 || !isRight)
        throw new Error(
          `seed ${seed}, ${history.context}: ${JSON.stringify(outcomes)}, not ${JSON.stringify(answer)} after\n${history.told.join('\n')}`,
        )
      if (allowed.length < outcomes.length) counts.unclear++
      counts[isStored ? 'stored' : 'refused']++
      const [first] = allowed
      if (first && 'stored' in first)
        Object.assign(history, { before: first.stored, slack: Math.max(history.slack, slack) })
    }

    for (let step = 0; step < STEPS; step++) {
      const pause = random.pick(PAUSES)
      await passTime(stores[0], pause, { sha })
      passed += pause * 1000
      await Promise.all(
        group.map((history, index) => report(history, stores[(step + index) % 2 === 0 ? 0 : 1])),
      )
      const rows = await stores[step % 2 === 0 ? 1 : 0].statuses.list(repositoryId, sha)
      const states = new Map(rows.map(({ context, state }) => [context, state]))
      for (const { context, before, told } of group)
        if (states.get(context) !== before?.status.state)
          throw new Error(
            `seed ${seed}, ${context}: ${states.get(context)} is stored after\n${told.join('\n')}`,
          )
    }
  }
  return counts
}

function refusalOf(error: unknown): { retryAfter: number } {
  if (error instanceof TryLater) return { retryAfter: error.retryAfter }
  if (error instanceof ServiceError && /^(?:claim_refused|report_late|run_superseded)$/.test(error.code))
    return { retryAfter: 0 }
  throw error
}
