import { SIZES } from './fixture.ts'
import { invalidateCaches } from './invalidate-caches.ts'
import type { ServerProcess } from './processes.ts'
import { authorized, read, under } from './requests.ts'
import type { Scenario } from './scenario.ts'
import type { Served } from './servers.ts'

/** Returns the scenarios of reads. @param etag of the public commit with 10 contexts */
export function readScenarios(
  { fixture, server }: Served,
  baseline: ServerProcess,
  etag: string,
): Scenario[] {
  const { sized, stored, silent, privateCommit, tokens } = fixture
  const unchanged = [read('public', sized.get(10), { 'if-none-match': etag })]
  const first = stored.map((sha) => read('public', sha))
  const meanwhile = () => invalidateCaches(fixture)
  const constant = (contexts: number) => `constant answer, ${contexts} contexts`
  const ok = { statuses: [200] }
  return [
    { name: 'hello', server: baseline, requests: under('/hello', unchanged), ...ok },
    {
      name: 'read, unchanged (304)',
      server,
      requests: unchanged,
      statuses: [304],
      against: { name: 'hello', target: { atLeast: 0.9 } },
    },
    ...SIZES.flatMap((contexts): Scenario[] => {
      const requests = [read('public', sized.get(contexts))]
      const target = contexts === 10 && { target: { atLeast: 1.5 } }
      return [
        { name: constant(contexts), server: baseline, requests: under('/constant', requests), ...ok },
        {
          name: `read ${contexts}, anonymous, public`,
          server,
          requests,
          ...ok,
          against: { name: constant(contexts), ...target },
        },
      ]
    }),
    {
      name: 'read 10, token, private',
      server,
      requests: [read('private', privateCommit, authorized(tokens[0]))],
      ...ok,
      against: { name: constant(10), target: { atLeast: 1.4 } },
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
      name: 'read 0, git look-up, warm',
      server,
      requests: silent.map((sha) => read('silent', sha)),
      ...ok,
    },
  ]
}
