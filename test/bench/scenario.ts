import type { LoadRequest } from './load.ts'
import type { ServerProcess } from './processes.ts'
import type { Aim } from './row.ts'

/** Requests to one server, over and over. */
export interface Scenario {
  name: string
  server: ServerProcess
  requests: LoadRequest[]
  /** The statuses that answers may have. */
  statuses: number[]
  /** 32 unless given. */
  connections?: number
  /** Begins something that goes on beside, and gives what ends it and says what was wrong with it, if anything. */
  beside?: () => Promise<() => Promise<string | undefined>>
  /** The scenario that it is compared with, and the ratio that is aimed at. */
  against?: { name: string; aim?: Aim }
}
