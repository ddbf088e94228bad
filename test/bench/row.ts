/** The target of a ratio. */
export type Target = { atLeast: number } | { atMost: number }

/** One line of the result. */
export interface Row {
  name: string
  /** Median. */
  value: number
  unit: 'requests/s' | 'ms' | 'MiB' | 'bytes'
  /** Maximum minus minimum, as a fraction of the median. */
  spread?: number
  /** Latency under load, in milliseconds. */
  p50?: number
  p99?: number
  /** Processor time of the server: microseconds per request, and processors kept busy. */
  cpu?: number
  busy?: number
  /** Name of the baseline's row. */
  against?: string
  ratio?: number
  /** Ratio of processor time per request: the ratio if nothing but the server were slow. */
  cpuRatio?: number
  target?: Target
  /** The target is one of `cpuRatio`. */
  byCpu?: true
}

/** Processors kept busy from which on the server, not the load generator, was the bottleneck. */
const BUSY = 0.9

/**
 * Tells whether a target is met; `by CPU` where the ratio falls short only because the server was
 * not busy.
 */
export function isReached({ ratio, cpuRatio, busy = 1, target, byCpu }: Row): 'yes' | 'by CPU' | 'no' | '' {
  if (target === undefined || ratio === undefined) return ''
  if (byCpu) return meets(cpuRatio ?? Number.NaN, target) ? 'yes' : 'no'
  if (meets(ratio, target)) return 'yes'
  return busy < BUSY && cpuRatio !== undefined && meets(cpuRatio, target) ? 'by CPU' : 'no'
}

function meets(ratio: number, target: Target): boolean {
  return 'atLeast' in target ? ratio >= target.atLeast : ratio <= target.atMost
}

export function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}

/** Returns the spread of repeated measurements as a fraction of their median. */
export function spreadOf(numbers: number[]): number {
  return (Math.max(...numbers) - Math.min(...numbers)) / median(numbers)
}
