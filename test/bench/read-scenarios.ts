import type { PreparedAnswer } from './baseline-http.ts'
import { type Fixture, SIZES } from './fixture.ts'
import { invalidateCaches } from './invalidate-caches.ts'
import type { ServerProcess } from './processes.ts'
import { authorized, read, under } from './requests.ts'
import type { Comparison, Scenario } from './scenario.ts'
import type { Served } from './servers.ts'

/** Servers that reads are compared with: Fastify, and `node:http` alone. */
interface Baselines {
  baseline: ServerProcess
  raw: ServerProcess
}

/** Reads that are compared with `node:http`: their requests, and the targets of processor time. */
function rawReads({ sized, privateCommit, tokens }: Fixture, etag: string) {
  return {
    unchanged: {
      request: read('public', sized.get(10), { 'if-none-match': etag }),
      target: { atLeast: 0.85 },
    },
    anonymous: { request: read('public', sized.get(10)), target: { atLeast: 0.85 } },
    token: { request: read('private', privateCommit, authorized(tokens[0])), target: { atLeast: 0.75 } },
  }
}

/** Headers that `node:http` sets itself. */
const AUTOMATIC = ['connection', 'content-length', 'date', 'keep-alive']

/**
 * Records our server's answers for `node:http` to repeat.
 *
 * @param etag of the public commit with 10 contexts
 */
export async function rawAnswers(
  { fixture, server }: Served,
  etag: string,
): Promise<Record<string, PreparedAnswer>> {
  const answers: Record<string, PreparedAnswer> = {}
  for (const [name, { request }] of Object.entries(rawReads(fixture, etag))) {
    const { status, headers, ...answer } = await fetch(server.url + request.path, {
      headers: request.headers,
    }).then(async (response) => ({
      status: response.status,
      headers: response.headers,
      body: await response.text(),
    }))
    const own = [...headers].filter(([header]) => !AUTOMATIC.includes(header))
    answers[`/${name}${request.path}`] = { status, headers: Object.fromEntries(own), body: answer.body }
  }
  return answers
}

/** Returns the scenarios of reads. @param etag of the public commit with 10 contexts */
export function readScenarios(
  { fixture, server }: Served,
  { baseline, raw }: Baselines,
  etag: string,
): Scenario[] {
  const { sized, stored, silent } = fixture
  const reads = rawReads(fixture, etag)
  const byCpu = (name: keyof typeof reads): Comparison => {
    return { name: `node:http, ${name}`, target: reads[name].target, byCpu: true }
  }
  const limit = (name: keyof typeof reads, status: number): Scenario => {
    const requests = under(`/${name}`, [reads[name].request])
    return { name: `node:http, ${name}`, server: raw, requests, statuses: [status] }
  }
  const unchanged = [reads.unchanged.request]
  const first = stored.map((sha) => read('public', sha))
  const meanwhile = () => invalidateCaches(fixture)
  const constant = (contexts: number) => `constant answer, ${contexts} contexts`
  const ok = { statuses: [200] }
  return [
    limit('unchanged', 304),
    limit('anonymous', 200),
    limit('token', 200),
    { name: 'hello', server: baseline, requests: under('/hello', unchanged), ...ok },
    {
      name: 'read, unchanged (304)',
      server,
      requests: unchanged,
      statuses: [304],
      against: [{ name: 'hello', target: { atLeast: 0.9 } }, byCpu('unchanged')],
    },
    ...SIZES.flatMap((contexts): Scenario[] => {
      const requests = [read('public', sized.get(contexts))]
      const bare = { name: constant(contexts), ...(contexts === 10 && { target: { atLeast: 1.5 } }) }
      return [
        { name: constant(contexts), server: baseline, requests: under('/constant', requests), ...ok },
        {
          name: `read ${contexts}, anonymous, public`,
          server,
          requests,
          ...ok,
          against: contexts === 10 ? [bare, byCpu('anonymous')] : bare,
        },
      ]
    }),
    {
      name: 'read 10, token, private',
      server,
      requests: [reads.token.request],
      ...ok,
      against: [{ name: constant(10), target: { atLeast: 1.4 } }, byCpu('token')],
    },
    { name: 'one select', server: baseline, requests: under('/select', first), ...ok, meanwhile },
    {
      name: 'read 10, first read of a commit',
      server,
      requests: first,
      ...ok,
      meanwhile,
      against: { name: 'one select', target: { atLeast: 0.8 } },
    },
    {
      name: 'read 0, git lookup, warm',
      server,
      requests: silent.map((sha) => read('silent', sha)),
      ...ok,
    },
  ]
}
