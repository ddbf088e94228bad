/** What a ratio should be. */
export type Aim = { atLeast: number } | { atMost: number }

/** One line of the result. */
export interface Row {
  name: string
  /** Median. */
  value: number
  unit: 'requests/s' | 'ms' | 'MiB' | 'bytes'
  /** Greatest less least, as a part of the median. */
  spread?: number
  /** Of a load: milliseconds. */
  p50?: number
  p99?: number
  /** Of a load: microseconds of the server's processor time for a request, and processors that it kept busy. */
  cpu?: number
  busy?: number
  /** Name of the line that it is compared with. */
  against?: string
  ratio?: number
  /** The same of processor time: what it would be if nothing but the server were slow. */
  cpuRatio?: number
  aim?: Aim
}

/** A server that had a processor to itself was the slower side of a load. */
const BUSY = 0.9

/** By processor time where the ratio falls short because the load, or something else, kept the server from working. */
export function isReached({ ratio, cpuRatio, busy = 1, aim }: Row): 'yes' | 'by CPU' | 'no' | '' {
  if (aim === undefined || ratio === undefined) return ''
  if (meets(ratio, aim)) return 'yes'
  return busy < BUSY && cpuRatio !== undefined && meets(cpuRatio, aim) ? 'by CPU' : 'no'
}

function meets(ratio: number, aim: Aim): boolean {
  return 'atLeast' in aim ? ratio >= aim.atLeast : ratio <= aim.atMost
}

export function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}

/** Of repeated measurements. */
export function spreadOf(numbers: number[]): number {
  return (Math.max(...numbers) - Math.min(...numbers)) / median(numbers)
}
