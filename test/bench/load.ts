/** What one process of load does. */
export interface Load {
  url: string
  connections: number
  /** Whole seconds. */
  seconds: number
  /** In turn, over all connections. */
  requests: LoadRequest[]
}

export interface LoadRequest {
  method: 'GET' | 'POST'
  path: string
  headers: Record<string, string>
  /** May hold `UNIQUE` once. */
  body?: string
}

/** In a body: something else each time it is sent. */
export const UNIQUE = '[<id>]'

/** What came of it. */
export interface Measured {
  /** Answers a second. */
  rate: number
  /** Milliseconds. */
  p50: number
  p99: number
  /** Answers by status. */
  statuses: Record<string, number>
  errors: number
}
