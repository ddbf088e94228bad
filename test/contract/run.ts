import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Client, JsonAnswer } from './client.ts'
import type { Fixture } from './fixture.ts'
import type { Operation } from './spec.ts'

/** A run of the contract tests against an instance. */
export interface Run {
  client: Client
  fixture: Fixture
  /** Seed of all random values. */
  seed: number
  /** Values per property. */
  runs: number
  /** Failed authentications that the run may still cause without being blocked. */
  failuresLeft: number
  /**
   * Reports every so manieth code point, and each of the first 12,288 (default: 1, all of them).
   */
  codePointStep?: number
}

/** A part of the contract tests. Rejects if the instance violates the contract. */
export interface Check {
  name: string
  run(run: Run): Promise<void>
}

/** Checks a property with `run.runs` values. A failure is shrunk and reports the seed. */
export function holds<T>(
  run: Run,
  values: fc.Arbitrary<T>,
  property: (value: T) => Promise<void>,
): Promise<void> {
  const settings = { numRuns: run.runs, seed: run.seed, endOnFailure: false }
  return fc.assert(fc.asyncProperty(values, property), settings)
}

/** @throws Error when the contract has no such operation */
export function operationCalled(run: Pick<Run, 'client'>, id: string): Operation {
  const operation = run.client.contract.operations.find((candidate) => candidate.id === id)
  if (!operation) throw new Error(`the contract has no operation ${id}`)
  return operation
}

/** Returns the operations that report a status and list the statuses of a commit. */
export function reportAndList(run: Pick<Run, 'client'>): { report: Operation; list: Operation } {
  return { report: operationCalled(run, 'reportStatus'), list: operationCalled(run, 'listStatuses') }
}

/** Returns the combined state of statuses by its definition (openapi.yaml). */
export function combined(states: readonly string[]): string | null {
  if (states.length === 0) return null
  if (states.includes('failure') || states.includes('error')) return 'failure'
  return states.includes('pending') ? 'pending' : 'success'
}

export function expectStatus(answer: JsonAnswer, status: number, what: string): void {
  assert.equal(
    answer.status,
    status,
    `${what}: ${status} expected; got ${answer.status} ${answer.body.slice(0, 300)}`,
  )
}
