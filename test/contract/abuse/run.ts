import assert from 'node:assert/strict'
import type { Answer } from '../checker.ts'
import { object } from '../json.ts'
import { statusesOf } from '../reports.ts'
import { type Check, type Run, reportAndList } from '../run.ts'
import { exchange } from '../wire.ts'
import { cleanCommit, pathParams } from '../world.ts'
import { type AbuseCase, bodies, framing, paths, type Target } from './cases.ts'

/** Requests that are meant to break a server, sent byte by byte. */
export const abuse: Check = {
  name: 'no abuse of HTTP, JSON or paths gets more than an error',
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

/** Sends one case; afterwards the next good request must be served, and nothing may have been stored. */
async function attempt(
  run: Run,
  { parts, expected, halfClose = false, closes = false }: AbuseCase,
): Promise<void> {
  const { baseUrl } = run.client
  const expect = closes ? expected.length + 1 : Math.max(1, expected.length)
  const { answers, closed, rest } = await exchange(baseUrl, parts, { expect, halfClose, patience: 4_000 })
  for (const answer of answers) {
    assert(answer.status < 500, `${answer.status} ${answer.body}`)
    if (answer.status >= 400) assertError(answer)
  }
  assert.equal(rest, '', `what follows the answers: ${rest.slice(0, 100)}`)
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
  if (closes) assert(closed, 'the connection stays open')
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
  const { open, writer } = run.world
  const params = pathParams(open, cleanCommit(open))
  const answer = await run.client.call(list, { params, token: writer.secret })
  assert.deepEqual(statusesOf(answer), [], 'something was stored')
}

export function targetOf({ client, world }: Run): Target {
  const { report, list } = reportAndList({ client })
  assert(report.body)
  const params = pathParams(world.open, cleanCommit(world.open))
  return {
    host: client.baseUrl.host,
    path: client.pathOf(report, params),
    readPath: client.pathOf(list, params),
    token: world.writer.secret,
    limit: report.body.limit,
    good: '{"state":"success"}',
  }
}
