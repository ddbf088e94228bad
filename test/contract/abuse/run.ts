import assert from 'node:assert/strict'
import type { Answer } from '../checker.ts'
import { cleanCommit, pathParams } from '../fixture.ts'
import { object } from '../json.ts'
import { statusesOf } from '../reports.ts'
import { type Check, type Run, reportAndList } from '../run.ts'
import { exchange } from '../wire.ts'
import { type AbuseCase, bodies, framing, paths, type Target } from './cases.ts'

/** Sends malformed and hostile requests as raw bytes. */
export const abuse: Check = {
  name: 'malformed HTTP, JSON and paths are answered with errors',
  async run(run) {
    const target = targetOf(run)
    const found: string[] = []
    for (const one of [...framing(target), ...bodies(target), ...paths(target)]) {
      await attempt(run, one).catch((error: unknown) => {
        found.push(`${one.name}: ${error instanceof Error ? error.message.split('\n')[0] : error}`)
      })
    }
    assert.equal(found.join('\n'), '')
  },
}

/** Sends one case. Afterwards a valid request must succeed, and nothing may have been stored. */
async function attempt(
  run: Run,
  { parts, expected, halfClose = false, closes = false }: AbuseCase,
): Promise<void> {
  const { baseUrl } = run.client
  const expect = closes ? expected.length + 1 : Math.max(1, expected.length)
  const { answers, closed, rest } = await exchange(baseUrl, parts, { expect, halfClose, timeout: 4_000 })
  for (const answer of answers) {
    assert(answer.status < 500, `${answer.status} ${answer.body}`)
    if (answer.status >= 400) assertError(answer)
  }
  assert.equal(rest, '', `bytes after the last answer: ${rest.slice(0, 100)}`)
  assert.equal(
    answers.length,
    expected.length,
    `answers: ${answers.map(({ status }) => status)}, closed: ${closed}`,
  )
  answers.forEach(({ status, body }, index) => {
    assert(
      expected[index]?.includes(status),
      `${expected[index]} expected; got ${status} ${body.slice(0, 200)}`,
    )
  })
  if (closes) assert(closed, 'the connection is still open')
  await assertStoresNothing(run)
}

function assertError({ headers, body }: Answer): void {
  assert.equal(headers.get('content-type'), 'application/json; charset=utf-8')
  const error = object(JSON.parse(body), 'an error')
  assert.deepEqual(Object.keys(error), ['error'])
  assert(typeof error.error === 'string' && error.error !== '')
  assert.equal(headers.get('cache-control'), 'no-store')
}

async function assertStoresNothing(run: Run): Promise<void> {
  const { list } = reportAndList(run)
  const { open, writer } = run.fixture
  const params = pathParams(open, cleanCommit(open))
  const answer = await run.client.call(list, { params, token: writer.secret })
  assert.deepEqual(statusesOf(answer), [], 'something was stored')
}

export function targetOf({ client, fixture }: Run): Target {
  const { report, list } = reportAndList({ client })
  assert(report.body)
  const params = pathParams(fixture.open, cleanCommit(fixture.open))
  return {
    host: client.baseUrl.host,
    path: client.pathOf(report, params),
    readPath: client.pathOf(list, params),
    token: fixture.writer.secret,
    limit: report.body.limit,
    good: '{"state":"success"}',
  }
}
