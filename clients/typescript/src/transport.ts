import createFetchClient from 'openapi-fetch'
import type { Operation, OperationInput } from './generated/operations.ts'

/** An answer before its type is known. Status 0 stands for anything that the contract does not declare. */
export interface Answer {
  status: number
  body: unknown
  headers: Headers
}

/** How one attempt ended, and whether another one makes sense. */
export interface Outcome {
  answer: Answer
  retry: boolean
}

interface TransportOptions {
  signal: AbortSignal
  ifNoneMatch?: string | undefined
}

/** Sends one request once. Never rejects. */
export type Transport = (
  operation: Operation,
  input: OperationInput,
  options: TransportOptions,
) => Promise<Outcome>

/** Replaces the global `fetch`, for example to use a proxy. */
export type Fetch = (request: Request) => Promise<Response>

const RETRIED = [429, 502, 503, 504]

/** Creates the transport: the only module that depends on openapi-fetch. */
export function createTransport(
  baseUrl: string,
  token: string | undefined,
  fetch: Fetch | undefined,
): Transport {
  const http = createFetchClient<Record<string, never>>({
    baseUrl,
    ...(fetch && { fetch }),
    headers: { Accept: 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
  })
  return async (operation, { parameters, body }, { signal, ifNoneMatch }) => {
    const isQuery = (name: string) => operation.query.includes(name)
    const init = {
      params: {
        path: Object.fromEntries(Object.entries(parameters).filter(([name]) => !isQuery(name))),
        query: Object.fromEntries(Object.entries(parameters).filter(([name]) => isQuery(name))),
      },
      ...(body !== undefined && { body }),
      ...(ifNoneMatch && { headers: { 'If-None-Match': ifNoneMatch } }),
      parseAs: 'text',
      // A followed redirect turns a report into a read, or carries the token elsewhere.
      redirect: 'manual',
      signal,
    }
    try {
      const { data, error, response } = await Reflect.apply(http.request, http, [
        operation.method,
        operation.path,
        init,
      ])
      const repeatable = operation.repeatable || response.status === 429
      return {
        answer: readAnswer(operation, response, response.ok ? data : error),
        retry: repeatable && RETRIED.includes(response.status),
      }
    } catch (error) {
      return { answer: unanswered(`no answer: ${reasonOf(error)}`), retry: operation.repeatable }
    }
  }
}

/** Returns an answer with status 0. */
export function unanswered(error: string, headers = new Headers()): Answer {
  return { status: 0, body: { error }, headers }
}

function readAnswer(operation: Operation, response: Response, content: unknown): Answer {
  const { status, headers } = response
  const declared = operation.statuses.includes(status)
  if (declared && status === 304) return { status, body: undefined, headers }
  // Failures come parsed where they are JSON; successes as text.
  const body = response.ok ? parseJson(content) : content
  const isObject = typeof body === 'object' && body !== null
  if (declared && isObject) return { status, body, headers }
  const message = describe(response, body)
  return declared && status >= 400
    ? { status, body: { error: message }, headers }
    : unanswered(message, headers)
}

function describe(response: Response, body: unknown): string {
  const { status, statusText, headers } = response
  const location = headers.get('location')
  if (location) return `answered ${status}, which leads to ${location}: is the base URL right?`
  if (response.type === 'opaqueredirect') return 'answered with a redirect: is the base URL right?'
  if (response.ok) return `answered ${status} without the JSON that belongs to it: is the base URL right?`
  const reason = typeof body === 'object' && body !== null && 'error' in body ? `${body.error}` : statusText
  return `answered ${status}${reason && `: ${reason}`}`
}

function parseJson(text: unknown): unknown {
  try {
    return JSON.parse(`${text}`)
  } catch {
    return undefined
  }
}

/** Node hides the reason of a failed `fetch` in its cause, whose message may be empty. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (!(cause instanceof Error)) return error.message
  return cause.message || ('code' in cause ? String(cause.code) : error.message)
}
