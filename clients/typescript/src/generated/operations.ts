// Written by `npm run generate` from openapi.yaml. Do not edit.

import type { paths } from './schema.ts'

/** One answer: a status code that the contract declares, with its body. */
export interface Result<Status extends number, Body> {
  status: Status
  body: Body
  headers: Headers
}

/** Path parameters and the body, a StatusReport. */
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

/** Every operation of the contract. */
export interface Operations {
  /** Report a status. */
  reportStatus(input: ReportStatusInput): Promise<ReportStatusResult>

  /** Read the statuses of a commit. */
  listStatuses(input: ListStatusesInput): Promise<ListStatusesResult>
}

/** Makes one method an operation out of `call`, which sends the request and gives its result. */
export function operationsOver(
  call: <Answer>(method: string, path: string, parameters: object, body?: unknown) => Promise<Answer>,
): Operations {
  return {
    reportStatus: ({ body, ...parameters }) => call('post', '/api/v1/repos/{owner}/{repo}/statuses/{sha}', parameters, body),
    listStatuses: (parameters) => call('get', '/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses', parameters),
  }
}
