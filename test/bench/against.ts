import { type Measurement, measureOnce } from './measure.ts'
import { median, spreadOf } from './row.ts'
import type { ServerSide, SideRequest } from './side.ts'
import { textTable } from './table.ts'

/** Seconds of load before the first round of a process. */
const WARM_UP = 3
/**
 * Rounds after which the servers are started again: two processes of one program differ by more
 * than a few per cent.
 */
const ROUNDS_OF_A_PROCESS = 3

/** A request on two servers. */
export interface Compared {
  name: string
  /** Medians: microseconds of processor time per request, or milliseconds of a transfer. */
  here: number
  there: number
  /** Median of the ratios `here / there` of each round. */
  ratio: number
  /** Ratio of the least values: what remains where other load made single rounds slow. */
  best: number
  /** Spread of the ratios; see `spreadOf`. */
  spread: number
}

/**
 * Measures the processor time per request on two servers, in turn. The first of each round is the
 * last of the next one, so a machine that becomes slower or faster affects both.
 */
export async function compareSides<Side extends ServerSide>(
  sides: readonly Side[],
  requests: readonly SideRequest<Side>[],
  { rounds, seconds, ...rest }: Measurement,
): Promise<Compared[]> {
  const pairs = requests.map(({ name, requestsOf, status, meanwhile }) => ({
    name,
    runs: sides.map((side) => ({
      scenario: {
        name: `${name} (${side.name})`,
        get server() {
          return side.server
        },
        requests: requestsOf(side),
        statuses: [status],
        ...(meanwhile && { meanwhile: () => meanwhile(side) }),
      },
      cpu: [] as number[],
    })),
  }))
  for (let round = 0; round < rounds; round++) {
    if (round % ROUNDS_OF_A_PROCESS === 0) {
      if (round > 0) for (const side of sides) await side.restart()
      for (const { runs } of pairs)
        for (const { scenario } of runs) await measureOnce(scenario, { seconds: WARM_UP, ...rest })
    }
    for (const { runs } of pairs)
      for (const { scenario, cpu } of round % 2 === 0 ? runs : runs.toReversed())
        cpu.push((await measureOnce(scenario, { seconds, ...rest })).cpu)
  }

  return pairs.map(({ name, runs }) => {
    const [here = [], there = []] = runs.map(({ cpu }) => cpu)
    return compared(name, here, there)
  })
}

/** @param here values of each round on the first server, as `there` on the second */
export function compared(name: string, here: number[], there: number[]): Compared {
  const ratios = here.map((value, round) => value / (there[round] ?? Number.NaN))
  return {
    name,
    here: median(here),
    there: median(there),
    ratio: median(ratios),
    best: Math.min(...here) / Math.min(...there),
    spread: spreadOf(ratios),
  }
}

/** @param unit of the values */
export function comparisonTable(rows: Compared[], unit: string, commit: string): string {
  return textTable(
    ['', unit, commit, 'ratio', 'best', 'spread'],
    rows.map(({ name, here, there, ratio, best, spread }) => [
      name,
      here.toFixed(1),
      there.toFixed(1),
      ratio.toFixed(3),
      best.toFixed(3),
      `${(spread * 100).toFixed(0)} %`,
    ]),
  )
}
