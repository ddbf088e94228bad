import type { LoadRequest } from './load.ts'
import type { ServerProcess } from './processes.ts'
import type { Target } from './row.ts'

/** Requests that are sent to one server repeatedly. */
export interface Scenario {
  name: string
  server: ServerProcess
  requests: LoadRequest[]
  /** Allowed status codes. */
  statuses: number[]
  /** Default: 32. */
  connections?: number
  /**
   * Starts a concurrent activity. Returns a function that stops it and returns an error message if
   * it failed.
   */
  meanwhile?: () => Promise<() => Promise<string | undefined>>
  against?: Comparison | Comparison[]
}

/** A baseline, and the target of the ratio to it. */
export interface Comparison {
  name: string
  target?: Target
  /** The target is one of processor time per request, not of requests per second. */
  byCpu?: true
}

export function comparisonsOf({ against = [] }: Pick<Scenario, 'against'>): Comparison[] {
  return [against].flat()
}
