// Written by `npm run generate` from openapi.yaml. Do not edit.

import type { paths } from './schema.ts'

/** A response that the contract declares. */
export interface Result<Status extends number, Body> {
  status: Status
  body: Body
  headers: Headers
}

/**
 * No response that the contract declares: the service could not be reached, or something else
 * responded.
 */
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

/** Path and query parameters. */
export type GetVerdictInput = paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['parameters']['path'] & NonNullable<paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['parameters']['query']>

export type GetVerdictResult =
  | Result<200, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][200]['content']['application/json']>
  | Result<304, undefined>
  | Result<401, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][401]['content']['application/json']>
  | Result<403, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][403]['content']['application/json']>
  | Result<404, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][404]['content']['application/json']>
  | Result<422, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][422]['content']['application/json']>
  | Result<429, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][429]['content']['application/json']>
  | Result<503, paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['responses'][503]['content']['application/json']>
  | Unanswered

/** All operations of the contract. */
export interface Operations<Options> {
  /** Report a status. */
  reportStatus(input: ReportStatusInput, options?: Options): Promise<ReportStatusResult>

  /** Read the statuses of a commit. */
  listStatuses(input: ListStatusesInput, options?: Options): Promise<ListStatusesResult>

  /** Decide whether a commit has passed its required checks. */
  getVerdict(input: GetVerdictInput, options?: Options): Promise<GetVerdictResult>
}

/** Describes an operation, as needed to send requests to it. */
export interface Operation {
  method: string
  path: string
  /** Names of the query parameters. All others are in the path. */
  query: readonly string[]
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
  replacesBy: { field: string; otherwise: string } | null
  /** Maximum length of fields of the body, in Unicode code points. */
  maxLength: Readonly<Record<string, number>>
  /** Permitted values of fields of the body with an enum. */
  values: Readonly<Record<string, readonly string[]>>
}

type Parameter = string | number | boolean
/** The path and query parameters and the body of a request. */
export interface OperationInput {
  parameters: Readonly<Record<string, Parameter | readonly Parameter[] | undefined>>
  body?: Readonly<Record<string, unknown>>
}

/** What values of enums count as where several are combined. */
export const countsAs = {
  "State": {
    "pending": "pending",
    "success": "success",
    "failure": "failure",
    "error": "failure"
  }
} as const

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
    "required": [
      "id",
      "sha",
      "context",
      "state",
      "description",
      "target_url",
      "created_at",
      "updated_at"
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
    "required": [
      "state",
      "statuses"
    ],
    "repeatable": true,
    "replacesBy": null,
    "maxLength": {},
    "values": {}
  },
  "getVerdict": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict",
    "query": [
      "require",
      "branch",
      "wait"
    ],
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
    "required": [
      "verdict",
      "state",
      "required"
    ],
    "repeatable": true,
    "replacesBy": null,
    "maxLength": {},
    "values": {}
  }
} as const satisfies Record<string, Operation>

/** Returns one method for each operation. `call` sends the request and returns the result. */
export function createOperations<Options>(
  call: <Answer>(operation: Operation, input: OperationInput, options?: Options) => Promise<Answer>,
): Operations<Options> {
  return {
    reportStatus: ({ body, ...parameters }, options) => call(operations.reportStatus, { parameters, body }, options),
    listStatuses: (parameters, options) => call(operations.listStatuses, { parameters }, options),
    getVerdict: (parameters, options) => call(operations.getVerdict, { parameters }, options),
  }
}
