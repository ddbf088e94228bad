import createFetchClient from 'openapi-fetch'
import { type Operations, operationsOver } from './generated/operations.ts'
import type { components } from './generated/schema.ts'

export type { Operations } from './generated/operations.ts'
export type Status = components['schemas']['Status']
export type StatusReport = components['schemas']['StatusReport']
export type CommitStatuses = components['schemas']['CommitStatuses']

export interface ClientOptions {
  /** Where the service is: `https://status.example.org`. */
  baseUrl: string
  /** A personal access token; without one only public repositories can be read. */
  token?: string
}

/** A typed client with one method for each operation of the API. */
export function createClient({ baseUrl, token }: ClientOptions): Operations {
  const http = createFetchClient<Record<string, never>>({
    baseUrl: baseUrl.replace(/\/+$/, ''),
    ...(token && { headers: { Authorization: `Bearer ${token}` } }),
  })
  return operationsOver(async (method, path, parameters, body) => {
    const init = { params: { path: parameters }, ...(body !== undefined && { body }) }
    const { data, error, response } = await Reflect.apply(http.request, http, [method, path, init])
    return Object({ status: response.status, body: data ?? error, headers: response.headers })
  })
}
