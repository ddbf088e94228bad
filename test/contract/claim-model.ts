/** A report of a model, or what is stored of one. Times in milliseconds. */
export interface ClaimReport {
  state: 'pending' | 'success' | 'failure'
  run?: string | undefined
  /** When the run began; meaningless without one. */
  began: number
  /** Seconds; undefined without a claim. */
  claim?: number | undefined
  /** When it was stored. */
  at: number
}

/** What the server knows of a context. */
export interface ClaimedContext {
  status: ClaimReport
  /** The last run whose claim was stored. */
  lastClaimed: string | undefined
}

/** What becomes of a report: what is stored then, or the seconds of `Retry-After`, 0 without it. */
export type ClaimOutcome = { stored: ClaimedContext } | { refused: number }

/**
 * Returns what becomes of a report. Written from the prose of `reportStatus`. Whoever compares it
 * with a server leaves a second between its steps, since servers store `updated_at` in seconds.
 */
export function afterClaim(before: ClaimedContext | undefined, report: ClaimReport): ClaimOutcome {
  const lastClaimed = report.claim === undefined ? before?.lastClaimed : report.run
  const store = (began = report.began): ClaimOutcome => ({
    stored: { status: { ...report, began }, lastClaimed },
  })
  if (before === undefined) return store()
  const { status } = before
  const isPending = status.state === 'pending'
  const refuse = (milliseconds: number): ClaimOutcome => ({
    refused: isPending ? Math.max(1, Math.ceil(milliseconds / 1000)) : 0,
  })
  if (report.run === undefined) return store()

  if (status.run === report.run)
    return !isPending && report.state === 'pending' ? refuse(0) : store(Math.min(status.began, report.began))

  const isSuperseded = status.run !== undefined && report.began < status.began - 5_000
  if (report.claim === undefined) return isSuperseded ? { refused: 0 } : store()

  if (!isPending) return refuse(0)
  const second = (Math.floor(status.at / 1000) + 1) * 1000
  if (status.run === undefined)
    return report.state === 'pending' && report.began >= second && before.lastClaimed !== report.run
      ? store()
      : refuse(0)
  const reported = status.claim === undefined ? second : status.at
  const end = reported + Math.max(status.claim ?? 0, report.claim) * 1000
  return report.state === 'pending' && report.at >= end && !isSuperseded ? store() : refuse(end - report.at)
}
