import { type BranchPages, createBranchPages } from './branch-pages.ts'
import { createCircuitBreaker } from './circuit-breaker.ts'
import { type Operations, operations } from './generated/operations.ts'
import { createKeyedQueue } from './keyed-queue.ts'
import { describeArgumentError, type Operation, type OperationInput, parametersOf } from './operation.ts'
import { sendUntilFound } from './retry.ts'
import { abortable } from './sleep.ts'
import { type Answer, createTransport, type Fetch, unanswered } from './transport.ts'
import { createWaitForState, type WaitForState } from './wait-for-state.ts'

type MethodInput = OperationInput['parameters'] & { body?: OperationInput['body'] }

/** Bounds of one call. */
export interface TimeoutOptions {
  /** Longest time of one attempt, in milliseconds; 10,000 by default. */
  timeout?: number | undefined
  /**
   * Longest time of all attempts together, including the pauses between them, in milliseconds; by
   * default 30,000, or `timeout` if that is longer.
   */
  totalTimeout?: number | undefined
}

export interface ClientOptions extends TimeoutOptions {
  /**
   * Where the service is: `https://status.example.org`. In a browser, `/` is the page's own origin.
   */
  baseUrl: string
  /** A personal access token; without one only public repositories can be read. */
  token?: string | undefined
  /** Replaces the global `fetch`. */
  fetch?: Fetch | undefined
}

export interface CallOptions extends TimeoutOptions {
  /** Ends the call, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** The `ETag` of an earlier answer: an unchanged one is 304, without a body. */
  ifNoneMatch?: string | undefined
  /**
   * How long to ask again after a 404, in milliseconds; 0 by default. A mirror may not have brought
   * the commit yet. Every request has the whole `totalTimeout`.
   */
  waitForCommit?: number | undefined
}

/** One method for each operation of the API, and `waitForState` and `branchPages`, which are built on them. */
export type Client = Operations<CallOptions> & {
  waitForState: WaitForState
  branchPages: BranchPages<CallOptions>
}

export const defaultTimes = { timeout: 10_000, totalTimeout: 30_000 }

/**
 * Creates a typed client of the API.
 *
 * A method never rejects, except with the reason of the caller's own signal. Each outcome is a
 * result with a status of the contract, or with status 0 when the service was not reached or
 * something else answered. Network errors, 429 (after its `Retry-After`), 502, 503 and 504 are
 * retried. Reports of one context are sent in the order of the calls, and an earlier one is not
 * retried once a later one waits. After a 401 a client with a token sends nothing more.
 *
 * @throws TypeError for a malformed base URL or token; the message contains neither
 */
export function createClient({ baseUrl, token, fetch, ...defaults }: ClientOptions): Client {
  const credential = checkToken(token)
  const transport = createTransport(checkBaseUrl(baseUrl), credential, fetch)
  const breaker = createCircuitBreaker({ token: credential !== undefined })
  const inOrder = createKeyedQueue()

  async function call(
    id: string,
    operation: Operation,
    input: OperationInput,
    { signal, ifNoneMatch, waitForCommit = 0, ...own }: CallOptions = {},
  ): Promise<Answer> {
    const mistake = describeArgumentError(id, operation, input)
    if (mistake) return unanswered('refused', `not sent: ${mistake}`)
    const timeout = own.timeout ?? defaults.timeout ?? defaultTimes.timeout
    const totalTimeout =
      own.totalTimeout ?? defaults.totalTimeout ?? Math.max(defaultTimes.totalTimeout, timeout)
    const start = performance.now()
    const send = (superseded?: AbortSignal) =>
      sendUntilFound(breaker, (stop) => transport(operation, input, { signal: stop, ifNoneMatch }), {
        timeout,
        totalTimeout,
        start,
        waitForCommit,
        signal,
        superseded,
      })
    const key = replacementKey(operation, input)
    return abortable(key === null ? send() : inOrder(key, send), signal)
  }

  const entries = Object.entries(operations).map(([id, operation]) => {
    const method = ({ body, ...parameters }: MethodInput, options?: CallOptions) =>
      call(id, operation, { parameters, body }, options)
    return [id, method]
  })
  // The transport has checked the status against the contract; the body's type is the service's
  // promise.
  const methods = Object.fromEntries(entries) as Operations<CallOptions>
  return {
    ...methods,
    waitForState: createWaitForState(methods.listStatuses, defaults.totalTimeout),
    branchPages: createBranchPages(methods.listBranches),
  }
}

/**
 * Returns the same key for requests of which the later one replaces the earlier. Owners and names
 * ignore case.
 */
function replacementKey(operation: Operation, input: OperationInput): string | null {
  const { path, replacesBy } = operation
  if (!replacesBy) return null
  const place = Object.values(parametersOf(operation, input, 'path')).map((value) =>
    String(value).toLowerCase(),
  )
  return JSON.stringify([path, place, input.body?.[replacesBy.field] ?? replacesBy.otherwise])
}

function checkBaseUrl(baseUrl: string): string {
  const isAbsolute = /^[a-z][a-z0-9+.-]*:/i.test(baseUrl)
  if (isAbsolute) {
    // Parsing errors would repeat the URL, which may hold a password.
    const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null
    const plain = url && !url.username && !url.password && !url.search && !url.hash
    if (!plain || !/^https?:$/.test(url.protocol)) {
      throw new TypeError(
        'the base URL must begin with http:// or https:// and have no user, password, query or fragment',
      )
    }
  } else if (!/^\/(?!\/)/.test(baseUrl)) {
    const received = baseUrl === '' ? 'the base URL is empty: it' : 'the base URL'
    throw new TypeError(`${received} must begin with http:// or https://, or be a path such as "/"`)
  }
  let end = baseUrl.length
  while (baseUrl[end - 1] === '/') end--
  return baseUrl.slice(0, end)
}

/** Secrets read from files often end in a line break, and unset ones are empty. */
function checkToken(token: string | undefined): string | undefined {
  const trimmed = token?.trim()
  if (trimmed && !/^[\x21-\x7e]+$/.test(trimmed)) {
    throw new TypeError('the token contains whitespace or non-ASCII characters')
  }
  return trimmed || undefined
}
