// Written by `npm run generate` from openapi.yaml. Do not edit.

import type { paths } from './schema.ts'

/** One answer: a status code that the contract declares, with its body. */
export interface Result<Status extends number, Body> {
  status: Status
  body: Body
  headers: Headers
}

/** No answer that the contract declares: the service was not reached, or something else answered. */
export type Unanswered = Result<0, { error: string }>

/** Path parameters and the body (StatusReport). */
export type ReportStatusInput = paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['parameters']['path'] & { body: paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['requestBody']['content']['application/json'] }

export type ReportStatusResult =
  | Result<201, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][201]['content']['application/json']>
  | Result<400, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][400]['content']['application/json']>
  | Result<401, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][401]['content']['application/json']>
  | Result<403, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][403]['content']['application/json']>
  | Result<404, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][404]['content']['application/json']>
  | Result<413, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][413]['content']['application/json']>
  | Result<415, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][415]['content']['application/json']>
  | Result<422, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][422]['content']['application/json']>
  | Result<429, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][429]['content']['application/json']>
  | Result<503, paths['/api/v1/repos/{owner}/{repo}/statuses/{sha}']['post']['responses'][503]['content']['application/json']>
  | Unanswered

/** Path parameters. */
export type ListStatusesInput = paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['parameters']['path']

export type ListStatusesResult =
  | Result<200, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][200]['content']['application/json']>
  | Result<304, undefined>
  | Result<401, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][401]['content']['application/json']>
  | Result<403, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][403]['content']['application/json']>
  | Result<404, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][404]['content']['application/json']>
  | Result<422, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][422]['content']['application/json']>
  | Result<429, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][429]['content']['application/json']>
  | Result<503, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses']['get']['responses'][503]['content']['application/json']>
  | Unanswered

/** Every operation of the contract. */
export interface Operations<Options> {
  /** Report a status. */
  reportStatus(input: ReportStatusInput, options?: Options): Promise<ReportStatusResult>

  /** Read the statuses of a commit. */
  listStatuses(input: ListStatusesInput, options?: Options): Promise<ListStatusesResult>
}

/** What sending a request takes to know about its operation. */
export interface Operation {
  method: string
  path: string
  /** Names of the parameters that are in the query; the others are in the path. */
  query: readonly string[]
  /** Status codes that the contract declares. */
  statuses: readonly number[]
  /** Whether sending the same request twice does no more than sending it once. */
  repeatable: boolean
  /** Requests to one path with the same value here replace each other; `otherwise` stands for a missing one. */
  replacesBy: { field: string; otherwise: string } | null
  /** Largest length of the body's fields, in Unicode code points. */
  maxLength: Readonly<Record<string, number>>
  /** Values of the body's fields that take no others. */
  values: Readonly<Record<string, readonly string[]>>
}

type Parameter = string | number | boolean
/** Path and query parameters and the body of one request. */
export interface OperationInput {
  parameters: Readonly<Record<string, Parameter | readonly Parameter[] | undefined>>
  body?: Readonly<Record<string, unknown>>
}

export const operations = {
  "reportStatus": {
    "method": "POST",
    "path": "/api/v1/repos/{owner}/{repo}/statuses/{sha}",
    "query": [],
    "statuses": [
      201,
      400,
      401,
      403,
      404,
      413,
      415,
      422,
      429,
      503
    ],
    "repeatable": true,
    "replacesBy": {
      "field": "context",
      "otherwise": "default"
    },
    "maxLength": {
      "context": 255,
      "description": 1024,
      "target_url": 2048
    },
    "values": {
      "state": [
        "pending",
        "success",
        "failure",
        "error"
      ]
    }
  },
  "listStatuses": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses",
    "query": [],
    "statuses": [
      200,
      304,
      401,
      403,
      404,
      422,
      429,
      503
    ],
    "repeatable": true,
    "replacesBy": null,
    "maxLength": {},
    "values": {}
  }
} as const satisfies Record<string, Operation>

/** Makes one method an operation out of `call`, which sends the request and gives its result. */
export function operationsOver<Options>(
  call: <Answer>(operation: Operation, input: OperationInput, options?: Options) => Promise<Answer>,
): Operations<Options> {
  return {
    reportStatus: ({ body, ...parameters }, options) => call(operations.reportStatus, { parameters, body }, options),
    listStatuses: (parameters, options) => call(operations.listStatuses, { parameters }, options),
  }
}
