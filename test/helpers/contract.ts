import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import { compileValidator, createAjv } from '../../src/api/validator.ts'

export const contractFile = resolve(import.meta.dirname, '../../openapi.yaml')

const ajv = createAjv(schemas)
const isError = compileValidator(ajv, { $ref: 'Error#' })
const routes = Object.entries(operations).map(([id, operation]) => ({
  id,
  method: operation.method,
  pattern: new RegExp(`^${operation.path.replace(/\{\w+\}/g, '[^/]+')}$`),
  replies: new Map(
    Object.entries(operation.replies).map(([status, schema]) => [
      Number(status),
      schema && compileValidator(ajv, schema),
    ]),
  ),
}))
/** Belong to no operation; any may meet them (info.description). */
const EVERYWHERE = [400, 405, 408, 414, 417, 431, 500]

export interface Answer {
  status: number
  headers: Headers
  body: string
}

/** Operation of the contract that a request names, if any. */
export function operationOf(method: string, path: string) {
  return routes.find(
    (route) =>
      route.method === (method === 'HEAD' ? 'GET' : method) &&
      route.pattern.test(path.split('?', 1)[0] ?? ''),
  )
}

/**
 * Checks an answer of the API against the contract: status declared, media type, body by its schema with no other
 * property, headers as documented.
 */
export function checkAnswer(method: string, path: string, answer: Answer): void {
  if (!path.startsWith('/api/')) return
  const operation = operationOf(method, path)
  const where = `${method} ${path.slice(0, 200)}: ${answer.status} ${answer.body.slice(0, 200)}`
  assert(answer.headers.get('x-request-id'), `${where}: no X-Request-Id`)
  if (operation) {
    assert(
      operation.replies.has(answer.status) || EVERYWHERE.includes(answer.status),
      `${where}: not declared`,
    )
    assert.equal(answer.headers.get('vary'), 'Authorization', where)
  }
  const succeeded = answer.status < 400
  assert.equal(answer.headers.get('cache-control'), succeeded ? 'private, no-cache' : 'no-store', where)
  assert.equal(answer.headers.has('etag'), answer.status === 304 || (succeeded && method !== 'POST'), where)
  assert.equal(answer.headers.has('www-authenticate'), answer.status === 401, where)
  assert.equal(answer.headers.has('retry-after'), answer.status === 429 || answer.status === 503, where)
  if (answer.status === 304 || method === 'HEAD') {
    assert.equal(answer.body, '', where)
    return
  }
  assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8', where)
  const validate = succeeded ? operation?.replies.get(answer.status) : isError
  assert(validate, where)
  const result = validate(JSON.parse(answer.body))
  if ('error' in result) assert.fail(`${where}: ${result.error.message}`)
}
