import { startTokenFlood } from './bad-token-flood.ts'
import { stir } from './invalidate-caches.ts'
import { read, teamRequests } from './requests.ts'
import type { Scenario } from './scenario.ts'
import type { Served } from './servers.ts'

const TEAM = 2_000
const STORM_RATE = 2_000

/** What depends on how much is stored. @param size said in the names @param against the same on another size */
export function sizeScenarios({ fixture, server }: Served, size: number, other?: number): Scenario[] {
  const { reads, reports, mix } = teamRequests(fixture, TEAM)
  const named = (name: string, of: number) => `${name}, of ${of.toLocaleString('en')}`
  const compared = (name: string) => ({
    name: named(name, size),
    server,
    ...(other && { against: { name: named(name, other), aim: { atLeast: 0.9 } } }),
  })
  return [
    {
      ...compared('read, uncached'),
      requests: reads,
      statuses: [200],
      beside: () => stir(fixture),
    },
    { ...compared('report'), requests: reports, statuses: [201] },
    { ...compared('mix'), requests: mix, statuses: [200, 201, 401, 404, 413, 429] },
  ]
}

export function tokenFloodScenarios({ fixture, server }: Served): Scenario[] {
  const requests = teamRequests(fixture, TEAM).good
  const good = { server, requests, statuses: [200, 201] }
  const [{ path }] = [read('public', fixture.sized.get(10))]
  const beside = () => startTokenFlood({ url: server.url, path, rate: STORM_RATE })
  return [
    { name: 'good requests', ...good },
    {
      name: 'good requests beside 2,000 bad tokens a second',
      ...good,
      beside,
      against: { name: 'good requests', aim: { atLeast: 0.7 } },
    },
  ]
}
