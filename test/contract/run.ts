import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Client, JsonAnswer } from './client.ts'
import type { Operation } from './spec.ts'
import type { World } from './world.ts'

/** One run of the contract tests against one instance. */
export interface Run {
  client: Client
  world: World
  /** From which all that is random follows. */
  seed: number
  /** How many values each property is tried with. */
  runs: number
  /** How many more failed authentications the run may cause without being locked out. */
  failuresLeft: number
}

/** A part of the contract tests. Rejects with what is wrong. */
export interface Check {
  name: string
  run(run: Run): Promise<void>
}

/** Holds a property against `run.runs` values; a failure is shrunk and names the seed. */
export function holds<T>(
  run: Run,
  values: fc.Arbitrary<T>,
  property: (value: T) => Promise<void>,
): Promise<void> {
  const settings = { numRuns: run.runs, seed: run.seed, endOnFailure: false }
  return fc.assert(fc.asyncProperty(values, property), settings)
}

/** @throws Error when the contract has no such operation */
function operationCalled(run: Pick<Run, 'client'>, id: string): Operation {
  const operation = run.client.contract.operations.find((candidate) => candidate.id === id)
  if (!operation) throw new Error(`the contract has no operation ${id}`)
  return operation
}

/** The operation that takes a report and the one that reads them back. */
export function reportAndList(run: Pick<Run, 'client'>): { report: Operation; list: Operation } {
  return { report: operationCalled(run, 'reportStatus'), list: operationCalled(run, 'listStatuses') }
}

export function expectStatus(answer: JsonAnswer, status: number, what: string): void {
  assert.equal(
    answer.status,
    status,
    `${what}: ${status} expected; got ${answer.status} ${answer.body.slice(0, 300)}`,
  )
}
