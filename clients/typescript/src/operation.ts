import type { operations as Contract } from './generated/schema.ts'

/** A response that the contract declares. */
export interface Result<Status extends number, Body> {
  status: Status
  body: Body
  headers: Headers
}

/**
 * Why there is no response that the contract declares:
 *
 * - `unreachable`: no connection, no response in time, or a gateway that has none. This may pass.
 * - `unexpected`: something else responded. The base URL may be wrong, or a proxy in between.
 * - `refused`: a status of 400 to 499 that the contract does not declare, or arguments of which no
 *   request can be made.
 * - `untrusted`: the certificate of the service is not trusted.
 */
export type UnansweredReason = 'unreachable' | 'unexpected' | 'refused' | 'untrusted'

/** No response that the contract declares. */
export type Unanswered = Result<0, { error: string; reason: UnansweredReason }>

type Json<Holder> = Holder extends { content: { 'application/json': infer Body } } ? Body : undefined
type Query<Parameters> = Parameters extends { query?: infer Query extends object }
  ? [Query] extends [never]
    ? unknown
    : Query
  : unknown
type Body<Call> = Call extends { requestBody: infer Body } ? { body: Json<Body> } : unknown

/** Path and query parameters of an operation, and its body. */
export type Input<Id extends keyof Contract> = Contract[Id]['parameters']['path'] &
  Query<Contract[Id]['parameters']> &
  Body<Contract[Id]>

type Answers<Responses> = {
  [Status in keyof Responses & number]: Result<Status, Json<Responses[Status]>>
}[keyof Responses & number]

/** Every result of an operation. */
export type Output<Id extends keyof Contract> = Answers<Contract[Id]['responses']> | Unanswered

/** Describes an operation, as needed to send and to repeat its requests. */
export interface Operation {
  method: string
  /** The parameters between braces are in the path, all others in the query. */
  path: string
  /** Status codes that the contract declares. */
  statuses: readonly number[]
  /** Fields that every successful response has. */
  required: readonly string[]
  /** Whether the same request may be sent twice: it is idempotent. */
  repeatable: boolean
  /**
   * Requests to one path with the same value of this field replace each other; `otherwise` is its
   * default.
   */
  replacesBy?: { field: string; otherwise: string }
  /** Maximum length of fields of the body, in Unicode code points. */
  maxLength?: Readonly<Record<string, number>>
  /** Permitted values of fields of the body with an enum. */
  values?: Readonly<Record<string, readonly string[]>>
}

type Parameter = string | number | boolean
/** The path and query parameters and the body of a request. */
export interface OperationInput {
  parameters: Readonly<Record<string, Parameter | readonly Parameter[] | undefined>>
  body?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Says which argument is no parameter of a request, as in `getVerdict({ …, query: { require: 'a' } })`;
 * undefined if all are.
 */
export function describeArgumentError(
  id: string,
  { path }: Operation,
  { parameters }: OperationInput,
): string | undefined {
  const isPlain = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || isPlain(value) || (Array.isArray(value) && value.every(isPlain))) continue
    const kind =
      value === null ? 'null' : Array.isArray(value) ? 'an array of other things than strings' : 'an object'
    return `${id}: the argument "${name}" is ${kind}; parameters are arguments of their own, as in ${id}({ owner, repo, … })`
  }
  const missing = path.match(/(?<=\{)\w+(?=\})/g)?.find((name) => (parameters[name] ?? '') === '')
  return missing === undefined ? undefined : `${id}: the argument "${missing}" is missing`
}

/** Returns the parameters that are in the path of an operation, or the others. */
export function parametersOf(
  { path }: Operation,
  { parameters }: OperationInput,
  place: 'path' | 'query',
): OperationInput['parameters'] {
  const isHere = (name: string) => path.includes(`{${name}}`) === (place === 'path')
  return Object.fromEntries(Object.entries(parameters).filter(([name]) => isHere(name)))
}
