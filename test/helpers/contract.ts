import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Answer, createChecker, OUTSIDE } from '../contract/checker.ts'
import { readContract } from '../contract/spec.ts'

export type { Answer }

export const contractFile = resolve(import.meta.dirname, '../../openapi.yaml')

/** The contract as JSON. A test compares it with openapi.yaml. */
export const contractJson = resolve(import.meta.dirname, '../../generated/openapi.json')
const checker = createChecker(await readContract(JSON.parse(readFileSync(contractJson, 'utf8'))))

/**
 * Checks an answer of the API against the contract: declared status, media type, headers, and a body that matches its
 * schema without additional properties. Allows the answers that belong to no operation, since tests provoke them.
 */
export function checkAnswer(method: string, path: string, answer: Answer): void {
  if (path.startsWith('/api/')) checker.check(method, path, answer, [...OUTSIDE, 500])
}
