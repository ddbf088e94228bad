// Written by `npm run generate` from openapi.yaml. Do not edit.

import type { components, paths } from './schema.ts'

/**
 * A success that the contract declares. `Headers` is an object type with the property
 * `headers`, if it has any.
 */
export type Reply<Status extends number, Body extends object | null, Headers = unknown> = Headers & {
  status: Status
} & ({ body: Body } | { derived: Derived<Body> })

/** A body that follows from its source alone, as `derive` in src/api/answers.ts returns it. */
export interface Derived<Body> {
  toBody: (source: never) => Body
  source: object
  body(): Body
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

export interface ListStatusesRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
    sha: components['schemas']['CommitId']
  }
}

export type ListStatusesReply =
  | Reply<200, components['schemas']['CommitStatuses']>

export interface GetVerdictRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
    sha: components['schemas']['CommitId']
  }
  query: NonNullable<paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['parameters']['query']> & Required<Pick<NonNullable<paths['/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict']['get']['parameters']['query']>, 'wait'>>
}

export type GetVerdictReply =
  | Reply<200, components['schemas']['CommitVerdict']>

export interface GetLastPassedRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
  }
  query: NonNullable<paths['/api/v1/repos/{owner}/{repo}/last-passed']['get']['parameters']['query']>
}

export type GetLastPassedReply =
  | Reply<200, components['schemas']['LastPassed'], { headers?: Required<Pick<paths['/api/v1/repos/{owner}/{repo}/last-passed']['get']['responses'][200]['headers'], never>> & Partial<Pick<paths['/api/v1/repos/{owner}/{repo}/last-passed']['get']['responses'][200]['headers'], 'Link'>> }>

export interface ListBranchesRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
  }
  query: NonNullable<paths['/api/v1/repos/{owner}/{repo}/branches']['get']['parameters']['query']> & Required<Pick<NonNullable<paths['/api/v1/repos/{owner}/{repo}/branches']['get']['parameters']['query']>, 'limit'>>
}

export type ListBranchesReply =
  | Reply<200, components['schemas']['BranchPage'], { headers?: Required<Pick<paths['/api/v1/repos/{owner}/{repo}/branches']['get']['responses'][200]['headers'], never>> & Partial<Pick<paths['/api/v1/repos/{owner}/{repo}/branches']['get']['responses'][200]['headers'], 'Link'>> }>

export interface ListAwaitingRequest {
  params: {
    owner: components['schemas']['Name']
    repo: components['schemas']['Name']
  }
  query: NonNullable<paths['/api/v1/repos/{owner}/{repo}/awaiting']['get']['parameters']['query']> & Required<Pick<NonNullable<paths['/api/v1/repos/{owner}/{repo}/awaiting']['get']['parameters']['query']>, 'limit'>>
}

export type ListAwaitingReply =
  | Reply<200, components['schemas']['AwaitingPage'], { headers?: Required<Pick<paths['/api/v1/repos/{owner}/{repo}/awaiting']['get']['responses'][200]['headers'], never>> & Partial<Pick<paths['/api/v1/repos/{owner}/{repo}/awaiting']['get']['responses'][200]['headers'], 'Link'>> }>

/**
 * All operations of the contract. A handler returns a success and throws every error. `Context`
 * describes the caller.
 */
export interface Handlers<Context> {
  /** Report a status: `POST /api/v1/repos/{owner}/{repo}/statuses/{sha}` */
  reportStatus(request: ReportStatusRequest, context: Context): Promise<ReportStatusReply>

  /** Read the statuses of a commit: `GET /api/v1/repos/{owner}/{repo}/commits/{sha}/statuses` */
  listStatuses(request: ListStatusesRequest, context: Context): Promise<ListStatusesReply>

  /** Decide whether a commit has passed its required checks: `GET /api/v1/repos/{owner}/{repo}/commits/{sha}/verdict` */
  getVerdict(request: GetVerdictRequest, context: Context): Promise<GetVerdictReply>

  /** Find the last commit of a branch that passed its required checks: `GET /api/v1/repos/{owner}/{repo}/last-passed` */
  getLastPassed(request: GetLastPassedRequest, context: Context): Promise<GetLastPassedReply>

  /** List branches and what their newest commits have passed: `GET /api/v1/repos/{owner}/{repo}/branches` */
  listBranches(request: ListBranchesRequest, context: Context): Promise<ListBranchesReply>

  /** List branches that wait for a check: `GET /api/v1/repos/{owner}/{repo}/awaiting` */
  listAwaiting(request: ListAwaitingRequest, context: Context): Promise<ListAwaitingReply>
}

/** The parts of a request, validated by the operation's schemas. */
export interface ValidatedRequest {
  params: unknown
  query?: unknown
  body?: unknown
}

/** A success of any operation. */
export type AnyReply = Reply<
  number,
  object | null,
  { headers?: Readonly<Record<string, string | number | boolean | undefined>> }
>

/** Calls the handler of one operation. */
export type Call<Context> = (request: ValidatedRequest, context: Context) => Promise<AnyReply>
