import { textTable } from '../../bench/table.ts'

/** How the requests of one client fared. */
export interface Figures {
  /** Who asked for what. */
  name: string
  /** Milliseconds of those that succeeded. */
  latencies: number[]
  /** What those that did not were answered, or how they ended. */
  failures: string[]
  /** What has to hold, and whether it does. None: for comparison only. */
  promise?: { text: string; kept: boolean }
}

export class Tally {
  readonly latencies: number[] = []
  readonly failures: string[] = []

  /** Measures work that returns null, or why it failed. */
  async measure(work: () => Promise<string | null>): Promise<void> {
    const began = performance.now()
    const failure = await work().catch((error: unknown) => String(error))
    if (failure === null) this.latencies.push(performance.now() - began)
    else this.failures.push(failure)
  }

  /** @param limit of `quantile` in milliseconds; none may fail */
  promise(name: string, quantile: number, limit: number): Figures {
    const { latencies, failures } = this
    const kept = failures.length === 0 && latencies.length > 0 && quantileOf(latencies, quantile) < limit
    const which = quantile === 1 ? 'each' : `p${quantile * 100}`
    return { name, latencies, failures, promise: { text: `none fails, ${which} < ${limit} ms`, kept } }
  }
}

/** The value below which the given share of all values lies. */
export function quantileOf(values: readonly number[], quantile: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? Number.NaN
}

const HEAD = ['', 'requests', 'failed', 'median ms', 'p99 ms', 'worst ms', 'kept', 'promise']

/** Returns a table with a line for each client. */
export function tableOf(rows: readonly Figures[]): string {
  const cells = rows.map(({ name, latencies, failures, promise }) => [
    name,
    `${latencies.length + failures.length}`,
    `${failures.length}`,
    ...[0.5, 0.99, 1].map((quantile) =>
      latencies.length === 0 ? '' : quantileOf(latencies, quantile).toFixed(1),
    ),
    promise === undefined ? '' : promise.kept ? 'yes' : 'NO',
    promise?.text ?? '',
  ])
  return textTable(HEAD, cells, [0, HEAD.length - 1])
}
