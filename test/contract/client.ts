import http from 'node:http'
import https from 'node:https'
import { type Answer, type Checker, createChecker, OUTSIDE } from './checker.ts'
import { Coverage } from './coverage.ts'
import type { Contract, Operation } from './spec.ts'
import { sampleOf } from './values.ts'

export interface Call {
  /**
   * Values of path parameters, unescaped. Ignores those that the operation's path does not contain.
   */
  params: Readonly<Record<string, string>>
  /**
   * Values of query parameters. A list is sent as repeated parameters. By default those that are
   * required.
   */
  query?: Query
  token?: string | undefined
  headers?: Readonly<Record<string, string>>
  /** Text and bytes are sent as they are, anything else as JSON. */
  body?: unknown
}

export type Query = Readonly<Record<string, string | readonly string[]>>

export interface JsonAnswer extends Answer {
  /** undefined without a body. */
  json: unknown
}

/** Those of earlier clients: to compile the schemas takes longer than most checks. */
const checkers = new WeakMap<Contract, Checker>()

/** Calls the operations of a contract on an instance, and checks and counts every answer. */
export class Client {
  readonly contract: Contract
  readonly coverage: Coverage
  readonly baseUrl: URL
  readonly #checker
  readonly #agent
  readonly #transport

  constructor(contract: Contract, baseUrl: string, coverage = new Coverage(contract)) {
    this.contract = contract
    this.coverage = coverage
    this.baseUrl = new URL(baseUrl)
    this.#checker = checkers.get(contract) ?? createChecker(contract)
    checkers.set(contract, this.#checker)
    this.#transport = this.baseUrl.protocol === 'https:' ? https : http
    this.#agent = new this.#transport.Agent({ keepAlive: true, maxSockets: 16 })
  }

  /**
   * Returns the path of an operation with its parameters, in which all but unreserved characters
   * are escaped.
   */
  pathOf(operation: Operation, params: Call['params']): string {
    const prefix = this.baseUrl.pathname.replace(/\/$/, '')
    const filled = operation.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ''))
    return prefix + filled
  }

  /** Calls an operation, which must declare the status of the answer. */
  call(operation: Operation, { params, query, token, headers, body }: Call): Promise<JsonAnswer> {
    return this.send(
      operation.method,
      this.pathOf(operation, params) + queryOf(query ?? requiredQuery(operation)),
      {
        headers: {
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-type': operation.body?.mediaType ?? '' }),
          ...headers,
        },
        body,
      },
    )
  }

  /** Sends any request. Outside all operations the status codes of `OUTSIDE` are allowed. */
  async send(
    method: string,
    path: string,
    options: Pick<Call, 'headers' | 'body'> = {},
  ): Promise<JsonAnswer> {
    const answer = await this.#request(method, path, options.headers ?? {}, bytesOf(options.body))
    const operation = this.#checker.operationOf(method, path)
    this.coverage.count(operation?.id, answer.status)
    this.#checker.check(method, path, answer, operation ? [] : OUTSIDE)
    const json: unknown = answer.body === '' ? undefined : JSON.parse(answer.body)
    return { ...answer, json }
  }

  close(): void {
    this.#agent.destroy()
  }

  #request(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: Uint8Array | undefined,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { hostname, port } = this.baseUrl
      const length = body === undefined ? {} : { 'content-length': String(body.length) }
      const request = this.#transport.request({
        hostname: hostname.replace(/^\[|\]$/g, ''),
        port,
        method,
        path,
        agent: this.#agent,
        headers: { ...length, ...headers },
      })
      request.on('error', reject)
      request.on('response', (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          resolve({
            status: response.statusCode ?? 0,
            headers: headersOf(response.rawHeaders),
            body: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks)),
          })
        })
      })
      request.end(body)
    })
  }
}

/** Converts raw headers, alternating names and values. Repeated ones are joined by a comma. */
export function headersOf(raw: readonly string[]): Headers {
  const headers = new Headers()
  for (let index = 0; index < raw.length; index += 2) headers.append(raw[index] ?? '', raw[index + 1] ?? '')
  return headers
}

/** Returns a query as text, with its question mark; empty for none. */
export function queryOf(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, value]),
  )
  const text = pairs.map((pair) => pair.map((part) => encodeURIComponent(part)).join('=')).join('&')
  return text === '' ? '' : `?${text}`
}

/**
 * Query parameters that depend on the repository, with a value that each one of a run has; null: with
 * none that all have.
 */
const GIVEN: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
  getLastPassed: { branch: 'main', require: 'ci/build', unless: 'deploy/prod', after: null },
}

/** Returns the given value of a query parameter; undefined if its schema alone says what is valid. */
export function givenValue({ id }: Operation, name: string): string | null | undefined {
  return GIVEN[id]?.[name]
}

/** Returns a valid value for each query parameter that an operation requires, and those that are given. */
export function requiredQuery(operation: Operation): Query {
  const pairs = operation.parameters.flatMap(({ in: place, name, required, schema }) => {
    const given = givenValue(operation, name)
    if (place !== 'query') return []
    if (given) return [[name, given]]
    return required ? [[name, String(sampleOf(schema))]] : []
  })
  return Object.fromEntries(pairs)
}

function bytesOf(body: unknown): Uint8Array | undefined {
  if (body === undefined || body instanceof Uint8Array) return body
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}
