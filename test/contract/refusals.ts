import assert from 'node:assert/strict'
import fc from 'fast-check'
import { cleanCommit, pathParams } from './fixture.ts'
import { entries, isObject, list, object } from './json.ts'
import { bodies, ILL_FORMED, mutationsOf, wrongValues } from './mutations.ts'
import { statusesOf } from './reports.ts'
import { type Check, expectStatus, holds, type Run, reportAndList } from './run.ts'
import { hasCommit, type Operation } from './spec.ts'
import { codePoint, rulesOf } from './values.ts'

/** Breaks each rule of each body: 422, a message that names the field, and nothing stored. */
export const refusals: Check = {
  name: 'every broken rule of a body is rejected by name',
  async run(run) {
    await storesNothing(run, async (sha) => {
      for (const operation of run.client.contract.operations.filter(({ body }) => body)) {
        for (const { name, field, broken } of mutationsOf(operation.body?.schema ?? {})) {
          await holds(run, broken, (body) => refused(run, operation, sha, body, field, name))
        }
        await holds(run, bodies(operation.body?.schema ?? {}), (body) =>
          tooManyBytes(run, operation, sha, body),
        )
        await holds(run, strangeBodies(operation), (body) => notAServerError(run, operation, sha, body))
      }
    })
  },
}

/** Breaks each rule of each path parameter: 422, or the answer for a missing repository. */
export const parameters: Check = {
  name: 'every broken rule of a path parameter is rejected',
  async run(run) {
    const { open, writer } = run.fixture
    const params = pathParams(open, cleanCommit(open))
    for (const operation of run.client.contract.operations) {
      for (const { name, schema } of operation.parameters.filter((parameter) => parameter.in === 'path')) {
        // An invalid name is a repository that does not exist; other invalid values are errors.
        const status = name === 'owner' || name === 'repo' ? 404 : 422
        for (const [rule, values] of wrongValues(schema)) {
          const texts = values.map(String).filter(inOneSegment)
          // A URL contains text only, and an empty segment is another path.
          if (rule.startsWith('type ') || (rule === 'too short' && schema.minLength === 1)) continue
          if (rule === ILL_FORMED) continue
          await holds(run, texts, async (value) => {
            const answer = await run.client.call(operation, {
              params: { ...params, [name]: value },
              token: writer.secret,
              body: operation.body?.examples[0],
            })
            expectStatus(answer, status, `${operation.id}, ${name}: ${rule}`)
            if (status === 422) assertNames(answer.json, name)
          })
        }
      }
    }
  },
}

/**
 * Sends commit ids of every other length: 422, and the contract says so. Independent of its
 * pattern, which could change.
 */
export const commitIds: Check = {
  name: 'abbreviated and overlong commit ids are rejected',
  async run(run) {
    const { open, writer } = run.fixture
    const digits = cleanCommit(open).repeat(2)
    const lengths = Array.from({ length: 63 }, (_, index) => index + 1).filter((length) => length !== 40)
    for (const operation of run.client.contract.operations.filter(hasCommit)) {
      const sha = operation.parameters.find(({ name }) => name === 'sha')
      await Promise.all(
        lengths.map(async (length) => {
          const id = digits.slice(0, length)
          assert(
            !rulesOf(sha?.schema ?? {}).fits(id),
            `${operation.id}: the contract allows ${length} digits`,
          )
          const answer = await run.client.call(operation, {
            params: pathParams(open, id),
            token: writer.secret,
            body: operation.body?.examples[0],
          })
          expectStatus(answer, 422, `${operation.id}, a commit id of ${length} digits`)
          assertNames(answer.json, 'sha')
        }),
      )
    }
  },
}

async function refused(
  run: Run,
  operation: Operation,
  sha: string,
  body: unknown,
  field: string,
  rule: string,
): Promise<void> {
  const params = pathParams(run.fixture.open, sha)
  const text = JSON.stringify(body)
  const limit = operation.body?.limit ?? 0
  const answer = await run.client.call(operation, { params, token: run.fixture.writer.secret, body: text })
  expectStatus(answer, Buffer.byteLength(text) > limit ? 413 : 422, rule)
  if (answer.status === 422) assertNames(answer.json, field)
}

async function tooManyBytes(run: Run, operation: Operation, sha: string, body: object): Promise<void> {
  const params = pathParams(run.fixture.open, sha)
  const text = JSON.stringify(body)
  const length = Buffer.byteLength(text)
  const filled = text + ' '.repeat((operation.body?.limit ?? 0) + 1 - length)
  const answer = await run.client.call(operation, { params, token: run.fixture.writer.secret, body: filled })
  expectStatus(answer, 413, `${Buffer.byteLength(filled)} bytes`)
}

/** Checks that arbitrary JSON that is not a valid report is answered 422. */
async function notAServerError(run: Run, operation: Operation, sha: string, body: unknown): Promise<void> {
  const params = pathParams(run.fixture.open, sha)
  const answer = await run.client.call(operation, {
    params,
    token: run.fixture.writer.secret,
    body: JSON.stringify(body),
  })
  expectStatus(answer, 422, JSON.stringify(body).slice(0, 300))
}

/** Returns arbitrary JSON without the field that would make it a valid report. */
function strangeBodies(operation: Operation): fc.Arbitrary<unknown> {
  const schema = operation.body?.schema ?? {}
  const [required = ''] = list(schema.required).map(String)
  const names = entries(schema.properties).map(([name]) => name)
  const key = fc.oneof(
    fc.constantFrom(...names, '__proto__', 'constructor', 'toString', 'hasOwnProperty', ''),
    fc.string({ unit: codePoint, maxLength: 8 }),
  )
  return fc
    .oneof(
      fc.jsonValue({ maxDepth: 4 }),
      fc.dictionary(key, fc.jsonValue({ maxDepth: 2 }), { noNullPrototype: false }),
    )
    .filter(
      (value) => !isObject(value) || !Object.hasOwn(value, required) || typeof value[required] !== 'string',
    )
}

/** Runs `work` with a commit and checks that its statuses do not change. */
async function storesNothing(run: Run, work: (sha: string) => Promise<void>): Promise<void> {
  const { list: read } = reportAndList(run)
  const { open, writer } = run.fixture
  const sha = cleanCommit(open)
  const readStatuses = async () =>
    statusesOf(await run.client.call(read, { params: pathParams(open, sha), token: writer.secret }))
  const before = await readStatuses()
  await work(sha)
  assert.deepEqual(await readStatuses(), before, 'a rejected report changed the statuses')
}

/** @throws AssertionError unless the message of an error names the field */
export function assertNames(json: unknown, field: string): void {
  const { error } = object(json, 'an error')
  assert(typeof error === 'string')
  const name = field.replace(/[[\]]/g, '\\$&')
  assert(new RegExp(`(^|\\W)${name}(\\W|$)`).test(error), `"${error}" does not name ${field}`)
}

/**
 * Tells whether one segment of a path can hold the value: not empty and without lone surrogates.
 */
function inOneSegment(value: string): boolean {
  return value !== '' && value.isWellFormed()
}
