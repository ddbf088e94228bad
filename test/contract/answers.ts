import assert from 'node:assert/strict'
import { rename } from 'node:fs/promises'
import fc from 'fast-check'
import type { JsonAnswer } from './client.ts'
import { cleanCommit, commitsOf, pathParams } from './fixture.ts'
import { object } from './json.ts'
import { mutationsOf } from './mutations.ts'
import { brokenQueries } from './queries.ts'
import { type Check, expectStatus, type Run } from './run.ts'
import { hasCommit, type Operation } from './spec.ts'

/** Sends requests to an operation that must all be answered with the same status code. */
type Provocation = (run: Run, operation: Operation) => Promise<JsonAnswer[]>

/**
 * Provokes each status code, for any operation that declares it. Two are checked separately: 429
 * locks the run out, and 503 needs access to the files.
 */
const provocations: Readonly<Record<number, Provocation>> = {
  200: async (run, operation) => [await succeed(run, operation)],
  201: async (run, operation) => [await succeed(run, operation)],
  204: async (run, operation) => [await succeed(run, operation)],
  304: async (run, operation) => {
    const first = await succeed(run, operation)
    const etag = first.headers.get('etag') ?? ''
    const lists = [etag, etag.replace('W/', ''), `"other", ${etag}`, '*']
    return Promise.all(lists.map((tag) => succeed(run, operation, { 'if-none-match': tag })))
  },
  400: (run, operation) => {
    const texts = [
      '',
      '{',
      '{"state": "success"',
      "{'state': 'success'}",
      'state=success',
      'NaN',
      '{"a":1,}',
      '\ufeff{}',
    ]
    const bytes = [
      Buffer.of(0x22, 0xff, 0x22),
      Buffer.of(0x22, 0xed, 0xa0, 0x80, 0x22),
      Buffer.of(0x22, 0xc0, 0x80, 0x22),
    ]
    return Promise.all([...texts, ...bytes].map((body) => write(run, operation, { body })))
  },
  401: async (run, operation) => {
    const answers: JsonAnswer[] = []
    const { closed, ended } = run.fixture
    const params = pathParams(closed, commitsOf(closed)[0] ?? '')
    answers.push(await run.client.call(operation, { params, body: bodyFor(operation) }))
    answers.push(await run.client.call(operation, { params, headers: { authorization: 'Bearer' } }))
    const bad = [
      ...ended.map(({ secret }) => `Bearer ${secret}`),
      'Basic Zm9vOmJhcg==',
      'token no',
      'Bearer a b',
    ]
    for (const authorization of bad) {
      if (run.failuresLeft <= 0) break
      run.failuresLeft -= 1
      answers.push(
        await run.client.call(operation, { params, headers: { authorization }, body: bodyFor(operation) }),
      )
    }
    return answers
  },
  403: (run, operation) => {
    const { open, closed, scopeless, reader, stranger } = run.fixture
    const missing = { ...open, name: `${open.name}-missing` }
    const asked = [open, closed, missing].map((repository) => [repository, scopeless] as const)
    if (operation.access === 'write') asked.push([closed, reader], [open, reader], [open, stranger])
    return Promise.all(
      asked.map(([repository, { secret }]) => {
        const params = pathParams(repository, commitsOf(open)[0] ?? '')
        return run.client.call(operation, { params, token: secret, body: bodyFor(operation) })
      }),
    )
  },
  404: async (run, operation) => {
    const { open, closed, stranger, writer } = run.fixture
    const unknown = cleanCommit(open).replace(/^.{8}/, '00000000')
    const call = (repository: typeof open, sha: string, token: string) =>
      run.client.call(operation, { params: pathParams(repository, sha), token, body: bodyFor(operation) })
    const answers = [
      await call(closed, cleanCommit(closed), stranger.secret),
      await call({ ...open, name: `${open.name}-missing` }, cleanCommit(open), writer.secret),
    ]
    if (!hasCommit(operation)) return answers
    return [
      ...answers,
      await call(open, unknown, writer.secret),
      await call(open, cleanCommit(closed), writer.secret),
    ]
  },
  409: async (run, operation) => {
    const report = (more: object) =>
      write(run, operation, {
        body: { ...object(bodyFor(operation), operation.id), context: 'runs', ...more },
      })
    await report({ state: 'failure' })
    await report({ state: 'failure', run: 'newer' })
    return [
      await report({ state: 'success', run: 'older', elapsed: 60_000 }),
      await report({ state: 'pending', run: 'newer' }),
    ]
  },
  413: (run, operation) => {
    const limit = operation.body?.limit ?? 0
    return Promise.all([
      write(run, operation, { body: padded(operation, limit + 1) }),
      write(run, operation, { body: Buffer.alloc(limit + 1) }),
      write(run, operation, { body: Buffer.alloc(limit * 40), headers: { 'content-type': 'text/plain' } }),
    ])
  },
  415: (run, operation) => {
    const types = ['text/plain', 'application/jsonx', 'text/json', 'application/json; charset=latin1', 'json']
    const wrong = [...types.map((type) => ({ 'content-type': type })), { 'content-encoding': 'gzip' }]
    return Promise.all(wrong.map((headers) => write(run, operation, { headers })))
  },
  422: async (run, operation) => {
    if (!hasCommit(operation)) return refusedByName(run, operation)
    const sha = cleanCommit(run.fixture.open)
    const otherFormat = '0'.repeat(sha.length === 40 ? 64 : 40)
    const shas = [sha.slice(0, 7), sha.slice(1), `${sha}0`, `g${sha.slice(1)}`, 'main', 'HEAD', otherFormat]
    return Promise.all(
      shas.map((sha) =>
        run.client.call(operation, {
          params: pathParams(run.fixture.open, sha),
          token: run.fixture.writer.secret,
          body: bodyFor(operation),
        }),
      ),
    )
  },
}

/** Provokes every declared status code of every operation. */
export const answers: Check = {
  name: 'every declared status code can be provoked',
  async run(run) {
    for (const operation of run.client.contract.operations) {
      for (const status of operation.replies.keys()) {
        const given = (await provocations[status]?.(run, operation)) ?? []
        for (const answer of given) expectStatus(answer, status, `${operation.id}, provoked`)
      }
    }
    await boundary(run)
  },
}

/** Moves a repository's files away: readers get 503, others the same answers as before. */
export const unavailability: Check = {
  name: 'missing repository files are answered 503 to readers only',
  async run(run) {
    const { closed, writer, stranger } = run.fixture
    if (closed.path === null) return
    await rename(closed.path, `${closed.path}.away`)
    try {
      const needFiles = (operation: Operation) => hasCommit(operation) || operation.tags.includes('branches')
      for (const operation of run.client.contract.operations.filter(needFiles)) {
        const params = pathParams(closed, cleanCommit(closed))
        const body = bodyFor(operation)
        const allowed = await run.client.call(operation, { params, token: writer.secret, body })
        expectStatus(allowed, 503, operation.id)
        assert.doesNotMatch(allowed.body, /ENOENT|\.git|\//, 'a 5xx does not reveal internals')
        const refused = await run.client.call(operation, { params, token: stranger.secret, body })
        expectStatus(refused, 404, operation.id)
      }
    } finally {
      await rename(`${closed.path}.away`, closed.path)
    }
  },
}

/**
 * Fails authentication until the address is locked out. From then on every request with a
 * credential is answered 429.
 */
export const lockOut: Check = {
  name: 'an address with too many failures is locked out',
  async run(run) {
    const { open, writer } = run.fixture
    const params = pathParams(open, cleanCommit(open))
    const [first, ...others] = run.client.contract.operations
    if (!first) return
    const body = bodyFor(first)
    let status = 401
    for (let tries = 0; status === 401 && tries < 100_000; tries++) {
      ;({ status } = await run.client.call(first, { params, token: 'wrong', body }))
    }
    assert.equal(status, 429)
    for (const operation of [first, ...others]) {
      const success = Math.min(...operation.replies.keys())
      const good = await run.client.call(operation, {
        params,
        token: writer.secret,
        body: bodyFor(operation),
      })
      expectStatus(good, 429, `${operation.id} with a good token`)
      const anonymous = await run.client.call(operation, { params, body: bodyFor(operation) })
      expectStatus(anonymous, operation.anonymous ? success : 401, `${operation.id} without a token`)
    }
  },
}

/**
 * Sends values that each break one rule of the query, or of the body if there are no query
 * parameters.
 */
async function refusedByName(run: Run, operation: Operation): Promise<JsonAnswer[]> {
  const params = pathParams(run.fixture.open, '')
  const token = run.fixture.writer.secret
  const sample = <T>(values: fc.Arbitrary<T>) => fc.sample(values, { numRuns: 1, seed: run.seed })
  const queries = brokenQueries(operation).flatMap(({ broken }) => sample(broken))
  const bodies =
    queries.length > 0
      ? []
      : mutationsOf(operation.body?.schema ?? {}).flatMap(({ broken }) => sample(broken))
  return Promise.all([
    ...queries.map((query) => run.client.call(operation, { params, query, token, body: bodyFor(operation) })),
    ...bodies.map((body) => run.client.call(operation, { params, token, body })),
  ])
}

/** Checks that a body of exactly the limit is accepted. */
async function boundary(run: Run): Promise<void> {
  for (const operation of run.client.contract.operations) {
    if (!operation.body) continue
    const answer = await write(run, operation, { body: padded(operation, operation.body.limit) })
    assert(
      answer.status < 300,
      `${operation.id}, a body of exactly the limit: ${answer.status} ${answer.body}`,
    )
  }
}

function succeed(run: Run, operation: Operation, headers = {}): Promise<JsonAnswer> {
  const { open, writer } = run.fixture
  const params = pathParams(open, commitsOf(open)[0] ?? '')
  return run.client.call(operation, { params, token: writer.secret, headers, body: bodyFor(operation) })
}

/** Calls an operation as the writer, by default with a valid body. */
function write(
  run: Run,
  operation: Operation,
  { body, headers = {} }: { body?: unknown; headers?: Record<string, string> },
): Promise<JsonAnswer> {
  const { open, writer } = run.fixture
  return run.client.call(operation, {
    params: pathParams(open, commitsOf(open)[0] ?? ''),
    token: writer.secret,
    headers,
    body: body ?? bodyFor(operation),
  })
}

/** Returns the contract's first example; undefined for an operation without a body. */
export function bodyFor(operation: Operation): unknown {
  return operation.body?.examples[0]
}

/** Returns the example, padded with white space to `bytes`. */
function padded(operation: Operation, bytes: number): string {
  return JSON.stringify(bodyFor(operation)).padStart(bytes)
}
