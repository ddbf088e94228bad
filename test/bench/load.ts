/** The task of one load generator process. */
export interface Load {
  url: string
  connections: number
  /** A whole number. */
  seconds: number
  /** Sent in turn over all connections. */
  requests: LoadRequest[]
}

export interface LoadRequest {
  method: 'GET' | 'POST'
  path: string
  headers: Record<string, string>
  /** May contain `UNIQUE` once. */
  body?: string
}

/** Placeholder in a body that is replaced by a unique value in each request. */
export const UNIQUE = '[<id>]'

/** The result of a load. */
export interface Measured {
  /** Answers per second. */
  rate: number
  /** Milliseconds. */
  p50: number
  p99: number
  /** Answers by status. */
  statuses: Record<string, number>
  errors: number
}
