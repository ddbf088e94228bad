import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { HEADERS_BY_STATUS, isServerHeader } from '../../src/codegen/headers.ts'
import { type Answer, createChecker, OUTSIDE } from '../contract/checker.ts'
import { readContract } from '../contract/spec.ts'

export type { Answer }

export const contractFile = resolve(import.meta.dirname, '../../openapi.yaml')

/** The contract as JSON. A test compares it with openapi.yaml. */
export const contractJson = resolve(import.meta.dirname, '../../generated/openapi.json')
const checker = createChecker(await readContract(JSON.parse(readFileSync(contractJson, 'utf8'))))

/**
 * Checks an answer of the API against the contract: declared status, media type, headers, and a
 * body that matches its schema without additional properties; and the headers that the generator
 * expects of the server. Allows the answers that belong to no operation, since tests provoke them.
 */
export function checkAnswer(method: string, path: string, answer: Answer): void {
  if (!path.startsWith('/api/')) return
  checker.check(method, path, answer, [...OUTSIDE, 500])
  // The generator relies on it: handlers do not set these headers.
  const name = HEADERS_BY_STATUS[answer.status] ?? ''
  if (isServerHeader(method, answer.status, name) && !answer.headers.has(name))
    throw new Error(`${method} ${path}: ${answer.status} without ${name}`)
}
