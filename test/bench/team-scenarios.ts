import { startTokenFlood } from './bad-token-flood.ts'
import { invalidateCaches } from './invalidate-caches.ts'
import { read, teamRequests } from './requests.ts'
import type { Scenario } from './scenario.ts'
import type { Served } from './servers.ts'

const TEAM = 2_000
const FLOOD_RATE = 2_000

/**
 * Returns scenarios that depend on the number of statuses.
 *
 * @param size part of the names
 * @param other size of the baseline
 */
export function sizeScenarios({ fixture, server }: Served, size: number, other?: number): Scenario[] {
  const { reads, reports, mix } = teamRequests(fixture, TEAM)
  const named = (name: string, of: number) => `${name}, ${of.toLocaleString('en')} statuses`
  const compared = (name: string) => ({
    name: named(name, size),
    server,
    ...(other && { against: { name: named(name, other), target: { atLeast: 0.9 } } }),
  })
  return [
    {
      ...compared('read, uncached'),
      requests: reads,
      statuses: [200],
      meanwhile: () => invalidateCaches(fixture),
    },
    { ...compared('report'), requests: reports, statuses: [201] },
    { ...compared('mix'), requests: mix, statuses: [200, 201, 401, 404, 413, 429] },
  ]
}

export function tokenFloodScenarios({ fixture, server }: Served): Scenario[] {
  const requests = teamRequests(fixture, TEAM).good
  const good = { server, requests, statuses: [200, 201] }
  const [{ path }] = [read('public', fixture.sized.get(10))]
  const meanwhile = () => startTokenFlood({ url: server.url, path, rate: FLOOD_RATE })
  return [
    { name: 'good requests', ...good },
    {
      name: 'good requests with 2,000 bad tokens per second',
      ...good,
      meanwhile,
      against: { name: 'good requests', target: { atLeast: 0.7 } },
    },
  ]
}
