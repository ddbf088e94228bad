import { resolve } from 'node:path'
import { type Answer, createChecker, OUTSIDE } from '../contract/checker.ts'
import { readContract } from '../contract/spec.ts'

export type { Answer }

export const contractFile = resolve(import.meta.dirname, '../../openapi.yaml')

const checker = createChecker(await readContract(contractFile))

/**
 * Checks an answer of the API against the contract: status declared, media type, headers, body by its schema with no
 * other property. Answers that belong to no operation are allowed, since tests provoke them.
 */
export function checkAnswer(method: string, path: string, answer: Answer): void {
  if (path.startsWith('/api/')) checker.check(method, path, answer, [...OUTSIDE, 500])
}
