import type { components } from './generated/schema.ts'

export type { BranchPage, BranchPages } from './branch-pages.ts'
export {
  type CallOptions,
  type Client,
  type ClientOptions,
  createClient,
  type TimeoutOptions,
} from './client.ts'
export { CommitStatusError, type SuccessBody, unwrap } from './errors.ts'
// Whatever the contract's operations are called.
export type * from './generated/operations.ts'
export type { Operation, OperationInput, Result, Unanswered, UnansweredReason } from './operation.ts'
export type { WaitForState, WaitOptions, WaitProgress, WaitResult } from './wait-for-state.ts'
export type Status = components['schemas']['Status']
export type StatusReport = components['schemas']['StatusReport']
export type CommitStatuses = components['schemas']['CommitStatuses']
export type CommitVerdict = components['schemas']['CommitVerdict']
export type LastPassed = components['schemas']['LastPassed']
export type BranchSummary = components['schemas']['BranchSummary']
