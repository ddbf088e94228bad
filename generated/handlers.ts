// Written by `npm run generate` from openapi.yaml. Do not edit.

import type { components } from './schema.ts'

/** One answer: a status code that the contract declares, with its body. */
export interface Reply<Status extends number, Body> {
  status: Status
  body: Body
}

export interface ReportStatusRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
    sha: components['schemas']['CommitId']
  }
  body: components['schemas']['StatusReport'] & Required<Pick<components['schemas']['StatusReport'], 'context'>>
}

export type ReportStatusReply =
  | Reply<201, components['schemas']['Status']>
  | Reply<400, components['schemas']['Error']>
  | Reply<401, components['schemas']['Error']>
  | Reply<403, components['schemas']['Error']>
  | Reply<404, components['schemas']['Error']>
  | Reply<413, components['schemas']['Error']>
  | Reply<415, components['schemas']['Error']>
  | Reply<422, components['schemas']['Error']>
  | Reply<429, components['schemas']['Error']>
  | Reply<503, components['schemas']['Error']>

export interface ListStatusesRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
    sha: components['schemas']['CommitId']
  }
}

export type ListStatusesReply =
  | Reply<200, components['schemas']['CommitStatuses']>
  | Reply<304, null>
  | Reply<401, components['schemas']['Error']>
  | Reply<403, components['schemas']['Error']>
  | Reply<404, components['schemas']['Error']>
  | Reply<422, components['schemas']['Error']>
  | Reply<429, components['schemas']['Error']>
  | Reply<503, components['schemas']['Error']>

/** Every operation of the contract. `Context` is what the server knows about the caller. */
export interface Handlers<Context> {
  /** Report a status: `POST /api/v1/repos/{owner}/{repo}/statuses/{sha}` */
  reportStatus(request: ReportStatusRequest, context: Context): Promise<ReportStatusReply>

  /** Read the statuses of a commit: `GET /api/v1/repos/{owner}/{repo}/commits/{sha}/statuses` */
  listStatuses(request: ListStatusesRequest, context: Context): Promise<ListStatusesReply>
}
