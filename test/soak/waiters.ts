import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import tap from 'tap'
import { databases } from '../helpers/databases.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { prepareDatabases } from '../helpers/prepare-databases.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

tap.setTimeout(600_000)

/** Requests that wait at once, from so many addresses: the limits of one process. */
const WAITERS = 1_000
const ADDRESSES = 10
const CONTEXTS = 10
/** Longest wait of a request, and for how long the processor's time is measured, in seconds. */
const WAIT = 25
const MEASURED = 20
/** Share of a core while nothing changes, and MiB of memory, both in addition to the server without waiting requests. */
const MOST_CPU = 0.02
const MOST_MEMORY = 50
const METRICS_TOKEN = 'metrics-of-this-proof'
/** Processor ticks of Linux in a second. */
const TICKS = 100

const prepared = await prepareDatabases()
Object.assign(process.env, prepared.environment)
tap.teardown(() => prepared.remove())

/** Runs `work` for each number, at most a hundred at once. */
async function forEach(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  for (let index = 0; index < count; index += 100)
    await Promise.all(
      Array.from({ length: Math.min(100, count - index) }, (_, offset) => work(index + offset)),
    )
}

const shaOf = (index: number) => index.toString(16).padStart(40, '0')

for (const database of databases) {
  for (const commits of [WAITERS, 1]) {
    tap.test(`${database.name}: ${WAITERS} requests wait for ${commits} commits`, async (t) => {
      const server = await startServer(t, { database })
      const { commits: pushed } = await server.createRepository('acme/rocket')
      const { id: repositoryId } = await server.store.repositories.get('acme', 'rocket')
      const token = await server.createToken('acme')
      const waited = Array.from({ length: commits }, (_, index) => shaOf(index))
      const status = { repositoryId, state: 'pending', description: null, targetUrl: null } as const
      for (let context = 0; context < CONTEXTS; context++)
        await forEach(commits, (index) =>
          server.store.statuses.report({ ...status, sha: shaOf(index), context: `ci/${context}` }),
        )
      const instance = await startInstance(
        t,
        server.options,
        { TRUSTED_PROXIES: '127.0.0.1', METRICS_TOKEN },
        [
          // As `npm start`.
          '--max-semi-space-size=16',
        ],
      )
      const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
      t.teardown(() => agent.destroy())
      const ask = (index: number, wait: number, etag = '') =>
        read(agent, `${instance.url}/api/v1/repos/acme/rocket/commits/${waited[index % commits]}`, {
          query: `require=ci/*&require=deploy&wait=${wait}`,
          headers: {
            'x-forwarded-for': `10.0.0.${index % ADDRESSES}`,
            ...(etag && { 'if-none-match': etag }),
          },
        })
      // Lets the process load and compile what a request needs, and opens the connections, which take memory by themselves.
      await forEach(10_000, (index) => ask(index, 0))
      await Promise.all(Array.from({ length: WAITERS }, (_, index) => ask(index, 0)))
      const before = memoryOf(instance)
      const idle = await shareOf(instance)

      let stopped = false
      const counts: Record<number, number> = {}
      const changed: number[] = []
      const client = async (index: number) => {
        let { etag } = await ask(index, 0)
        while (!stopped) {
          const answer = await ask(index, WAIT, etag)
          counts[answer.status] = (counts[answer.status] ?? 0) + 1
          if (answer.status === 200) changed.push(performance.now())
          etag = answer.etag
        }
      }
      const clients = Array.from({ length: WAITERS }, (_, index) => client(index))
      // No wait ends while the processor's time is measured.
      await until(async () => (await waiting(instance)) === WAITERS)
      const share = (await shareOf(instance)) - idle
      const renewed = (await shareOf(instance)) - idle
      const memory = memoryOf(instance) - before
      t.comment(
        `${percent(share)} of a core more than the ${percent(idle)} without, ${percent(renewed)} while each asks again; ` +
          `${Math.round(memory)} MiB; ${JSON.stringify(counts)}`,
      )
      t.ok(share < MOST_CPU, `${share} of a core`)
      t.ok(memory < MOST_MEMORY, `${memory} MiB`)
      t.same(Object.keys(counts), ['304'], 'nothing else is answered')

      // Another process stores one report for each commit.
      const reported = performance.now()
      stopped = true
      await forEach(commits, (index) =>
        server.store.statuses.report({ ...status, sha: shaOf(index), context: 'ci/0', state: 'failure' }),
      )
      const stored = performance.now()
      await Promise.all(clients)
      const last = Math.max(...changed)
      t.ok(changed.length > WAITERS / 2, 'the others were between two requests')
      t.comment(
        `reports stored within ${Math.round(stored - reported)} ms, the last answer ${Math.round(last - stored)} ms later`,
      )
      t.equal((await instance.read('acme/rocket', pushed[0] ?? '', token)).status, 200)
    })
  }
}

/** Returns how many requests wait. */
async function waiting({ url }: Instance): Promise<number> {
  const page = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })
  return Number(/^commit_status_waiting_requests (\d+)$/m.exec(await page.text())?.[1])
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`
}

interface Asked {
  query: string
  headers: Record<string, string>
}

function read(
  agent: Agent,
  commit: string,
  { query, headers }: Asked,
): Promise<{ status: number; etag: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(`${commit}/verdict?${query}`, { agent, headers }, (response) => {
      response.resume().on('end', () => {
        resolve({ status: response.statusCode ?? 0, etag: response.headers.etag ?? '' })
      })
    })
    sent.on('error', reject).end()
  })
}

/** Returns the resident memory of a process in MiB. */
function memoryOf({ child }: Instance): number {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024
}

/** Measures the share of a core that a process uses. */
async function shareOf(instance: Instance): Promise<number> {
  const start = cpuOf(instance)
  // The time over which the share is measured.
  await sleep(MEASURED * 1_000)
  return (cpuOf(instance) - start) / MEASURED
}

/** Returns the processor time of a process so far, in seconds. */
function cpuOf({ child }: Instance): number {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS
}
