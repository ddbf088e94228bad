import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { JsonAnswer } from './client.ts'
import { commitsOf, pathParams } from './fixture.ts'
import { entries, isObject, type Json, type JsonObject, object } from './json.ts'
import { bodies } from './mutations.ts'
import { type Check, expectStatus, holds, type Run, reportAndList } from './run.ts'
import type { Operation } from './spec.ts'
import { bound, withDefaults } from './values.ts'

/** Valid reports are accepted and read back exactly as sent. */
export const acceptance: Check = {
  name: 'every valid report is accepted and read back as sent',
  async run(run) {
    const { report } = reportAndList(run)
    const commits = commitsOf(run.fixture.open)
    const values = fc.tuple(bodies(report.body?.schema ?? {}), fc.constantFrom(...commits))
    await holds(run, values, ([body, sha]) => reportAndReadBack(run, body, sha))
  },
}

/**
 * Reports the code points that the schema allows, in the longest field. The seed decides which are
 * left out.
 */
export const allOfUnicode: Check = {
  name: 'Unicode code points are read back as sent',
  async run(run) {
    const { report } = reportAndList(run)
    const [field, length, pattern] = widestField(report.body?.schema ?? {})
    const [body] = fc.sample(bodies(report.body?.schema ?? {}), { numRuns: 1, seed: run.seed })
    const commits = commitsOf(run.fixture.open)
    const texts = [...unicode(pattern, length, run)]
    const lanes = commits.slice(0, 8).map(async (sha, lane) => {
      for (const text of texts.filter((_, index) => index % Math.min(8, commits.length) === lane)) {
        await reportAndReadBack(run, { ...body, [field]: text }, sha)
      }
    })
    await Promise.all(lanes)
  },
}

async function reportAndReadBack(run: Run, body: JsonObject, sha: string): Promise<void> {
  const { report, list } = reportAndList(run)
  const { open, writer } = run.fixture
  const params = pathParams(open, sha)
  // Otherwise a report of another run could be refused. One without a run never is.
  if ('run' in body) await run.client.call(report, { params, token: writer.secret, body: withoutRun(body) })
  // A claim is stored over a report of its own run.
  if ('claim' in body)
    await run.client.call(report, { params, token: writer.secret, body: withoutClaim(body) })
  const reported = await run.client.call(report, { params, token: writer.secret, body })
  expectStatus(reported, 201, JSON.stringify(body).slice(0, 300))
  const { claimed_until: claimedUntil, ...status } = object(reported.json, 'a status')
  assert.equal(typeof claimedUntil, 'claim' in body ? 'string' : 'undefined')
  assertEcho(report, body, status)
  assert.equal(status.sha, sha)
  const read = await run.client.call(list, { params, token: writer.secret })
  expectStatus(read, 200, list.id)
  const found = statusesOf(read).filter((entry) => entry.context === status.context)
  assert.deepEqual(found, [status], 'read back')
}

function withoutRun({ run: _, elapsed: __, ...body }: JsonObject): JsonObject {
  return withoutClaim(body)
}

function withoutClaim({ claim: _, ...body }: JsonObject): JsonObject {
  return body
}

/** Fields of a report that say when it counts, and are not part of the status. */
const UNANSWERED = ['run', 'elapsed', 'claim']

/**
 * Checks that a status contains the other fields of its report as sent, or their defaults, or null.
 */
export function assertEcho({ body: declared }: Operation, body: JsonObject, status: JsonObject): void {
  const schema = declared?.schema ?? {}
  const complete = withDefaults(schema, body)
  for (const [name] of entries(schema.properties)) {
    assert.equal(name in status, !UNANSWERED.includes(name), `${name} in the answer`)
    if (name in status) assert.deepEqual(status[name], complete[name] ?? null, name)
  }
}

export function statusesOf(answer: JsonAnswer): JsonObject[] {
  const { statuses } = object(answer.json, 'the statuses of a commit')
  assert(Array.isArray(statuses))
  return statuses.map((entry) => object(entry, 'a status'))
}

function widestField(schema: JsonObject): [name: string, length: number, pattern: RegExp | null] {
  const lengths = entries(schema.properties).flatMap(([name, field]): [string, number, RegExp | null][] => {
    if (!isObject(field) || field.type !== 'string' || field.format !== undefined || field.enum) return []
    return [[name, bound(field.maxLength, 1024), patternOf(field.pattern)]]
  })
  const [widest] = lengths.sort(([, a], [, b]) => b - a)
  if (!widest) throw new TypeError('no field of a report accepts free text')
  return widest
}

function patternOf(pattern: Json | undefined): RegExp | null {
  return typeof pattern === 'string' ? new RegExp(pattern, 'u') : null
}

/**
 * Yields texts of `length` that together contain the code points of a run that match, except
 * surrogates.
 */
function* unicode(
  pattern: RegExp | null,
  length: number,
  { seed, codePointStep: step = 1 }: Run,
): Generator<string> {
  let text: string[] = []
  const offset = (seed >>> 0) % step
  for (let point = 0; point <= 0x10ffff; point++) {
    if (point >= 0x3000 && point % step !== offset) continue
    const character = String.fromCodePoint(point)
    if (/\p{Cs}/u.test(character) || (pattern && !pattern.test(character))) continue
    text.push(character)
    if (text.length === length) {
      yield text.join('')
      text = []
    }
  }
  if (text.length > 0) yield text.join('')
}
