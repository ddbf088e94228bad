/** What a report says about its run. */
export interface RunReport {
  state: string
  /** undefined if it names no run. */
  run?: string | undefined
  /** When the run began, in milliseconds. */
  began: number
}

/**
 * Returns what becomes of the stored report of a context: the one that is stored after another
 * report, which is the same object if that one is refused. Written from the prose of
 * `reportStatus`.
 */
export function afterReport(stored: RunReport | undefined, report: RunReport): RunReport {
  if (stored?.run === undefined || report.run === undefined) return report
  if (stored.run === report.run) {
    const isLate = stored.state !== 'pending' && report.state === 'pending'
    return isLate ? stored : { ...report, began: Math.min(stored.began, report.began) }
  }
  return report.began < stored.began - 5_000 ? stored : report
}
