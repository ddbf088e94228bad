// Written by `npm run generate` from openapi.yaml. Do not edit.

import type { Input, Operation, Output } from '../operation.ts'

export type ReportStatusInput = Input<'reportStatus'>
export type ReportStatusResult = Output<'reportStatus'>
export type ListStatusesInput = Input<'listStatuses'>
export type ListStatusesResult = Output<'listStatuses'>
export type GetVerdictInput = Input<'getVerdict'>
export type GetVerdictResult = Output<'getVerdict'>
export type GetLastPassedInput = Input<'getLastPassed'>
export type GetLastPassedResult = Output<'getLastPassed'>
export type ListBranchesInput = Input<'listBranches'>
export type ListBranchesResult = Output<'listBranches'>
export type ListAwaitingInput = Input<'listAwaiting'>
export type ListAwaitingResult = Output<'listAwaiting'>

/** All operations of the contract. */
export interface Operations<Options> {
  /** Report a status. */
  reportStatus(input: ReportStatusInput, options?: Options): Promise<ReportStatusResult>
  /** Read the statuses of a commit. */
  listStatuses(input: ListStatusesInput, options?: Options): Promise<ListStatusesResult>
  /** Decide whether a commit has passed its required checks. */
  getVerdict(input: GetVerdictInput, options?: Options): Promise<GetVerdictResult>
  /** Find the last commit of a branch that passed its required checks. */
  getLastPassed(input: GetLastPassedInput, options?: Options): Promise<GetLastPassedResult>
  /** List branches and what their newest commits have passed. */
  listBranches(input: ListBranchesInput, options?: Options): Promise<ListBranchesResult>
  /** List branches that wait for a check. */
  listAwaiting(input: ListAwaitingInput, options?: Options): Promise<ListAwaitingResult>
}

export const operations = {
  reportStatus: {
    method: "POST",
    path: "/api/v1/repos/{owner}/{repo}/statuses/{sha}",
    statuses: [201,400,401,403,404,409,413,415,422,429,503],
    required: ["id","sha","context","state","description","target_url","created_at","updated_at"],
    repeatable: true,
    replacesBy: {"field":"context","otherwise":"default"},
    maxLength: {"context":255,"description":1024,"target_url":2048,"run":128},
    values: {"state":["pending","success","failure","error"]},
  },
  listStatuses: {
    method: "GET",
    path: "/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses",
    statuses: [200,304,401,403,404,422,429,503],
    required: ["state","statuses"],
    repeatable: true,
  },
  getVerdict: {
    method: "GET",
    path: "/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict",
    statuses: [200,304,401,403,404,422,429,503],
    required: ["verdict","state","required"],
    repeatable: true,
  },
  getLastPassed: {
    method: "GET",
    path: "/api/v1/repos/{owner}/{repo}/last-passed",
    statuses: [200,304,401,403,404,422,429,503],
    required: ["branch","commit","looked_at","next"],
    repeatable: true,
  },
  listBranches: {
    method: "GET",
    path: "/api/v1/repos/{owner}/{repo}/branches",
    statuses: [200,304,401,403,404,422,429,503],
    required: ["branches","next","left_out","truncated"],
    repeatable: true,
  },
  listAwaiting: {
    method: "GET",
    path: "/api/v1/repos/{owner}/{repo}/awaiting",
    statuses: [200,304,401,403,404,422,429,503],
    required: ["branches","next","left_out","truncated"],
    repeatable: true,
  },
} as const satisfies Record<string, Operation>

/** What values of enums count as where several are combined. */
export const countsAs = {"State":{"pending":"pending","success":"success","failure":"failure","error":"failure"}} as const
