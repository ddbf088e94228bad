import { randomUUID } from 'node:crypto'
import { createToken } from '../../src/auth/token.ts'
import { EMPTY_PACK } from '../git-http/raw.ts'
import { createRandom } from '../helpers/random.ts'
import type { Fixture } from './fixture.ts'
import { type LoadRequest, UNIQUE } from './load.ts'

const API = '/api/v1/repos/alice'
const NEWEST = 50
/** One byte more than the limit of a report. */
const OVERSIZED = 16 * 1024 + 1

export const authorized = (token = '') => ({ authorization: `Bearer ${token}` })

export function read(repository: string, sha = '', headers: Record<string, string> = {}): LoadRequest {
  return { method: 'GET', path: `${API}/${repository}/commits/${sha}/statuses`, headers }
}

/** Returns the request of an anonymous browser for a page. */
export function page(path: string): LoadRequest {
  return { method: 'GET', path, headers: { accept: 'text/html' } }
}

/** Returns a report. @param fields replace or add to those that all reports have */
export function report(
  repository: string,
  sha = '',
  token = '',
  fields: { context?: string; description?: string; run?: string } = {},
): LoadRequest {
  return {
    method: 'POST',
    path: `${API}/${repository}/statuses/${sha}`,
    headers: { ...authorized(token), 'content-type': 'application/json' },
    body: JSON.stringify({
      state: 'success',
      context: 'ci/check-0',
      description: '412 tests passed in 7 s',
      target_url: 'https://ci.example.org/jobs/7',
      ...fields,
    }),
  }
}

/**
 * Returns a push that creates a branch at a commit which the repository has. Its body is decoded as
 * Latin-1.
 */
export function push(repository: string, sha: string, token: string): LoadRequest {
  const command = `${'0'.repeat(sha.length)} ${sha} refs/heads/gated-${UNIQUE}\0report-status side-band-64k`
  const length = command.length - UNIQUE.length + randomUUID().length + 4
  const pack = EMPTY_PACK.toString('latin1')
  return {
    method: 'POST',
    path: `/alice/${repository}.git/git-receive-pack`,
    headers: { ...authorized(token), 'content-type': 'application/x-git-receive-pack-request' },
    body: `${length.toString(16).padStart(4, '0')}${command}0000${pack}`,
  }
}

/** Returns the same requests to a route of the baseline. */
export function under(prefix: string, requests: LoadRequest[]): LoadRequest[] {
  return requests.map((request) => ({ ...request, path: `${prefix}${request.path}` }))
}

/**
 * Returns the requests of a team to commits with 10 contexts each, 80 % of them to the 50 newest.
 */
export function teamRequests({ stored, tokens }: Fixture, count: number) {
  const random = createRandom(1)
  const commit = () => stored[random.below(random.onceIn(5) ? stored.length : NEWEST)]
  const oneRead = () =>
    read('public', commit(), random.onceIn(2) ? {} : authorized(tokens[random.below(tokens.length)]))
  const oneReport = () =>
    report('public', commit(), tokens[random.below(tokens.length)], {
      context: `ci/check-${random.below(10)}`,
      description: `412 tests passed in ${UNIQUE} s`,
    })
  const list = (create: (index: number) => LoadRequest) =>
    Array.from({ length: count }, (_, index) => create(index))
  const good = (index: number) => (index % 4 === 3 ? oneReport() : oneRead())

  /**
   * Of 1,000 requests, 10 have a bad token from one of 20 addresses, 5 name an unknown commit, and
   * 5 are oversized.
   */
  const mixed = (index: number): LoadRequest => {
    const place = random.below(1_000)
    const forwarded = { 'x-forwarded-for': `198.51.100.${random.below(20)}` }
    if (place < 10) return read('public', commit(), { ...authorized(createToken()), ...forwarded })
    if (place < 15) return read('public', `${'f'.repeat(36)}${1_000 + random.below(9_000)}`)
    if (place < 20) {
      const description = 'x'.repeat(OVERSIZED)
      return report('public', commit(), tokens[0], { description })
    }
    return good(index)
  }
  return { reads: list(oneRead), reports: list(oneReport), good: list(good), mix: list(mixed) }
}
