import assert from 'node:assert/strict'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { formats } from './formats.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import type { Contract, Operation, Reply } from './spec.ts'

export interface Answer {
  status: number
  headers: Headers
  body: string
}

/** Checks answers against a contract. */
export interface Checker {
  /** Returns the operation of a request, if any. */
  operationOf(method: string, path: string): Operation | undefined
  /**
   * Checks the status, the media type with its charset, the declared headers and the body against
   * their schemas. Rejects additional properties, and headers that the contract declares elsewhere
   * only.
   *
   * @param also additional status codes that are allowed without being declared
   * @throws AssertionError
   */
  check(method: string, path: string, answer: Answer, also?: readonly number[]): void
}

/**
 * Status codes outside all operations, for example for malformed or slow requests
 * (info.description).
 */
export const OUTSIDE = [400, 404, 405, 408, 417, 431] as const

/**
 * Creates an Ajv with this contract's keywords and formats, implemented from the contract's text
 * alone.
 */
export function contractAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    allErrors: true,
    // Compiling the meta-schema takes time; test/codegen/generate.test.ts validates the schemas.
    validateSchema: false,
  })
  for (const [name, { test }] of Object.entries(formats)) {
    ajv.addFormat(name, { type: 'string', validate: test })
  }
  // For code in other languages: JSON has no other integers.
  ajv.addFormat('int64', { type: 'number', validate: Number.isSafeInteger })
  ajv.addKeyword({
    keyword: 'x-max-bytes',
    type: 'string',
    schemaType: 'number',
    validate: (limit: number, value: string) => new TextEncoder().encode(value).length <= limit,
  })
  ajv.addKeyword({
    keyword: 'x-well-formed',
    type: 'string',
    schemaType: 'boolean',
    validate: (wanted: boolean, value: string) => !wanted || !/\p{Cs}/u.test(value),
  })
  ajv.addKeyword({ keyword: 'x-rule', schemaType: 'string' })
  ajv.addKeyword({ keyword: 'x-counts-as', schemaType: 'object' })
  return ajv
}

/** Returns the schema with `additionalProperties: false` in every object. */
export function closed(schema: JsonObject): JsonObject {
  const inner = Object.entries(schema).map(([key, value]): [string, Json] => {
    if (Array.isArray(value)) return [key, value.map((item) => (isObject(item) ? closed(item) : item))]
    return [key, isObject(value) ? closed(value) : value]
  })
  const result = Object.fromEntries(inner)
  // A map of properties is not a schema, even with a field called "properties".
  return isObject(schema.properties) && isSchema(schema) ? { ...result, additionalProperties: false } : result
}

function isSchema(value: JsonObject): boolean {
  return typeof value.type === 'string' || Array.isArray(value.type)
}

export function createChecker(contract: Contract): Checker {
  const ajv = contractAjv()
  const validators = new Map<JsonObject, ValidateFunction>()
  const validatorOf = (schema: JsonObject) => {
    const validate = validators.get(schema) ?? ajv.compile(closed(schema))
    validators.set(schema, validate)
    return validate
  }
  const replies = contract.operations.flatMap(({ replies }) => [...replies.values()])
  const knownHeaders = new Set(replies.flatMap(({ headers }) => headers.map(({ name }) => name)))
  // All errors have the same body, those outside all operations too.
  const anError = contract.operations.flatMap(({ replies }) => [...replies]).find(([status]) => status >= 400)
  const errorContent = anError?.[1].content ?? null
  const routes = contract.operations.map((operation) => ({
    operation,
    pattern: new RegExp(`^${operation.path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
  }))

  function operationOf(method: string, path: string): Operation | undefined {
    const [bare = ''] = path.split('?', 1)
    const name = method === 'HEAD' ? 'GET' : method
    return routes.find(({ operation, pattern }) => operation.method === name && pattern.test(bare))?.operation
  }

  function checkBody(content: Reply['content'], method: string, answer: Answer, where: string): void {
    if (content === null) {
      assert.equal(answer.body, '', where)
      assert.equal(answer.headers.get('content-type'), null, `Content-Type without a body: ${where}`)
      return
    }
    assert.equal(answer.headers.get('content-type'), `${content.mediaType}; charset=utf-8`, where)
    if (method === 'HEAD') {
      assert.equal(answer.body, '', where)
      return
    }
    const validate = validatorOf(content.schema)
    assert(validate(parseJson(answer.body, where)), `${ajv.errorsText(validate.errors)}: ${where}`)
  }

  function checkHeaders(reply: Reply, answer: Answer, where: string): void {
    for (const { name, required, schema } of reply.headers) {
      const value = answer.headers.get(name)
      if (value === null) assert(!required, `no ${name}: ${where}`)
      else {
        const validate = validatorOf(schema)
        assert(validate(value), `${name} is "${value}": ${ajv.errorsText(validate.errors)}: ${where}`)
      }
    }
    for (const name of answer.headers.keys()) {
      const declared = !knownHeaders.has(name) || reply.headers.some((header) => header.name === name)
      assert(declared, `${name} is not declared: ${where}`)
      assert(!/^(access-control-|set-cookie)/.test(name), `${name}: ${where}`)
    }
  }

  return {
    operationOf,
    check(method, path, answer, also = []) {
      const operation = operationOf(method, path)
      const where = `${method} ${path.slice(0, 200)}: ${answer.status} ${answer.body.slice(0, 200)}`
      const reply = operation?.replies.get(answer.status)
      if (reply) {
        checkHeaders(reply, answer, where)
        checkBody(reply.content, method, answer, where)
        return
      }
      assert(also.includes(answer.status), `not declared: ${where}`)
      assert.equal(answer.headers.get('cache-control'), 'no-store', where)
      assert.equal(answer.headers.get('etag'), null, where)
      assert.equal(answer.headers.has('allow'), answer.status === 405, where)
      checkBody(errorContent, method, answer, where)
    },
  }
}

function parseJson(body: string, where: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return assert.fail(`not JSON: ${where}`)
  }
}
