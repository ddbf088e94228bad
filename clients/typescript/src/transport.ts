import createFetchClient from 'openapi-fetch'
import {
  type Operation,
  type OperationInput,
  parametersOf,
  type Unanswered,
  type UnansweredReason,
} from './operation.ts'

/**
 * An answer before its type is known. Status 0 stands for anything that the contract does not
 * declare.
 */
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

export const RETRIED = [429, 502, 503, 504]
const REQUEST_TIMEOUT = 408
/**
 * Largest answer that is read, in bytes; that of a commit with 10,000 contexts is a quarter of it.
 */
const LARGEST = 64 * 2 ** 20

/** Types of openapi-fetch for any operation; the generated operations type what callers pass. */
type HttpMethod = 'get' | 'put' | 'post' | 'delete' | 'options' | 'head' | 'patch' | 'trace'
type AnyPaths = Record<string, Record<HttpMethod, AnyOperation>>
interface AnyOperation {
  parameters: Record<'path' | 'query', OperationInput['parameters']>
  requestBody?: { content: { 'application/json': unknown } }
  responses: { default: { content: { 'application/json': unknown } } }
}

/** Creates the transport: the only module that depends on openapi-fetch. */
export function createTransport(
  baseUrl: string,
  token: string | undefined,
  fetch: Fetch | undefined,
): Transport {
  const send = fetch ?? ((request) => globalThis.fetch(request))
  const http = createFetchClient<AnyPaths>({
    baseUrl,
    fetch: async (request) => limitBody(await send(request)),
    headers: { Accept: 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
  })
  return async (operation, input, { signal, ifNoneMatch }) => {
    // The contract knows no other methods.
    const method = operation.method.toLowerCase() as HttpMethod
    const init = {
      params: {
        path: parametersOf(operation, input, 'path'),
        query: parametersOf(operation, input, 'query'),
      },
      ...(input.body !== undefined && { body: input.body }),
      ...(ifNoneMatch && { headers: { 'If-None-Match': ifNoneMatch } }),
      parseAs: 'text',
      // A followed redirect turns a report into a read, or carries the token elsewhere.
      redirect: 'manual',
      signal,
    } as const
    try {
      const { data, error, response } = await http.request(method, operation.path, init)
      const repeatable = operation.repeatable || response.status === 429
      return {
        answer: readAnswer(operation, response, response.ok ? data : error, ifNoneMatch !== undefined),
        retry: repeatable && RETRIED.includes(response.status),
      }
    } catch (error) {
      const refused = certificateProblem(error)
      if (refused) return { answer: unanswered('untrusted', `no answer: ${refused}`), retry: false }
      const isTooLarge = error instanceof AnswerTooLarge
      const answer = unanswered(isTooLarge ? 'unexpected' : 'unreachable', `no answer: ${reasonOf(error)}`)
      return { answer, retry: operation.repeatable && !isTooLarge }
    }
  }
}

/** Returns an answer with status 0. */
export function unanswered(
  reason: UnansweredReason,
  error: string,
  headers: Headers = new Headers(),
): Answer & Unanswered {
  return { status: 0, body: { error, reason }, headers }
}

class AnswerTooLarge extends Error {}

/**
 * Returns the response with a body that fails once it is too large: a build may have little memory
 * to spare.
 */
function limitBody(response: Response): Response {
  if (response.body === null) return response
  let size = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      size += chunk.byteLength
      if (size > LARGEST) controller.error(new AnswerTooLarge(`the answer is larger than ${LARGEST} bytes`))
      else controller.enqueue(chunk)
    },
  })
  return new Response(response.body.pipeThrough(limit), response)
}

function readAnswer(
  operation: Operation,
  response: Response,
  content: unknown,
  conditional: boolean,
): Answer {
  const { status, headers } = response
  // Without If-None-Match, 304 answers a question that was not asked.
  const declared = operation.statuses.includes(status) && (conditional || status !== 304)
  if (declared && status === 304) return { status, body: undefined, headers }
  // Failures come parsed where they are JSON; successes as text.
  const body = response.ok ? parseJson(content) : content
  const fields = response.ok ? operation.required : []
  const isExpected = typeof body === 'object' && body !== null && fields.every((name) => name in body)
  if (declared && isExpected) return { status, body, headers }
  const message = describe(response, body)
  return declared && status >= 400
    ? { status, body: { error: message }, headers }
    : unanswered(reasonOfStatus(status), message, headers)
}

function reasonOfStatus(status: number): UnansweredReason {
  if (status === REQUEST_TIMEOUT || RETRIED.includes(status)) return 'unreachable'
  return status >= 400 && status < 500 ? 'refused' : 'unexpected'
}

function describe(response: Response, body: unknown): string {
  const { status, statusText, headers } = response
  const location = headers.get('location')
  if (location && status >= 300)
    return `answered ${status}, which redirects to ${location}: is the base URL right?`
  if (response.type === 'opaqueredirect') return 'answered with a redirect: is the base URL right?'
  if (response.ok) return `answered ${status} without the expected JSON: is the base URL right?`
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

/** Returns what is wrong with the service's certificate, which no later attempt would change. */
function certificateProblem(error: unknown): string | undefined {
  const code = String(codeOf(error instanceof Error ? error.cause : undefined))
  if (!/CERT|UNABLE_TO_(?:GET|VERIFY)/.test(code)) return undefined
  const reason = `the certificate of the service is not trusted (${reasonOf(error)})`
  const isUnknown = /SELF_SIGNED|UNABLE_TO/.test(code)
  return isUnknown ? `${reason}: set NODE_EXTRA_CA_CERTS to a file with the certificate of its CA` : reason
}

function codeOf(cause: unknown): unknown {
  return cause instanceof Error && 'code' in cause ? cause.code : undefined
}

/** Node hides the reason of a failed `fetch` in its cause, whose message may be empty. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (!(cause instanceof Error)) return error.message
  return cause.message || String(codeOf(cause) ?? error.message)
}
