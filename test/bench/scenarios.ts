import type { Request } from 'autocannon'
import type { Fixture } from './fixture.ts'
import { SIZES } from './fixture.ts'

export interface Scenario {
  name: string
  /** Whose server: ours, or the baseline's. */
  server: 'ours' | 'baseline'
  requests: Request[]
  /** Status that every answer has. */
  status: number
  /** Scenario that it is compared with, and the ratio that is aimed at. */
  against?: { name: string; atLeast?: number }
}

const API = '/api/v1/repos/alice'
const TYPE = { 'content-type': 'application/json' }

/** @param etag of the public commit with 10 contexts */
export function scenarios({ token, commits, privateCommit, fresh }: Fixture, etag: string): Scenario[] {
  const path = `${API}/public/commits/${commits.get(10)}/statuses`
  const authorization = { authorization: `Bearer ${token}` }
  const read = (size: number) => ({ path: `${API}/public/commits/${commits.get(size)}/statuses` })
  const report = (prefix: string, sha: (index: number) => string | undefined): Request[] =>
    Array.from({ length: 112 }, (_, index) => ({
      method: 'POST',
      path: `${prefix}${API}/reports/statuses/${sha(index)}`,
      headers: { ...authorization, ...TYPE },
      body: JSON.stringify({
        state: 'success',
        context: `ci/check-${index}`,
        description: `412 tests passed in ${index} s`,
        target_url: `https://ci.example.org/jobs/${index}`,
      }),
    }))
  const [hot] = fresh
  const unchanged = { 'if-none-match': etag }
  return [
    {
      name: 'hello',
      server: 'baseline',
      requests: [{ path: `/hello${path}`, headers: unchanged }],
      status: 200,
    },
    {
      name: 'unchanged read (304)',
      server: 'ours',
      requests: [{ path, headers: unchanged }],
      status: 304,
      against: { name: 'hello', atLeast: 0.9 },
    },
    { name: 'constant answer', server: 'baseline', requests: [{ path: `/constant${path}` }], status: 200 },
    {
      name: 'read 10, anonymous, public',
      server: 'ours',
      requests: [read(10)],
      status: 200,
      against: { name: 'constant answer', atLeast: 1.5 },
    },
    {
      name: 'read 10, token, private',
      server: 'ours',
      requests: [{ path: `${API}/private/commits/${privateCommit}/statuses`, headers: authorization }],
      status: 200,
      against: { name: 'constant answer', atLeast: 1.4 },
    },
    ...SIZES.filter((size) => size !== 10).map((size): Scenario => {
      const against = { name: 'constant answer' }
      return { name: `read ${size}`, server: 'ours', requests: [read(size)], status: 200, against }
    }),
    { name: 'upsert, one by one', server: 'baseline', requests: report('/single', () => hot), status: 201 },
    { name: 'upsert, grouped', server: 'baseline', requests: report('/grouped', () => hot), status: 201 },
    {
      name: 'report, replacing',
      server: 'ours',
      requests: report('', (index) => fresh[index]),
      status: 201,
      against: { name: 'upsert, grouped', atLeast: 0.8 },
    },
    {
      name: 'report to one hot commit',
      server: 'ours',
      requests: report('', () => hot),
      status: 201,
      against: { name: 'report, replacing', atLeast: 0.9 },
    },
  ]
}
