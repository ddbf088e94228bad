import assert from 'node:assert/strict'
import { once } from 'node:events'
import tap from 'tap'
import { commandLine } from '../../clients/typescript/test/helpers/command-line.ts'
import type { TestDatabase } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { startServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'
import { startLoad } from './parts/load.ts'

const ROUNDS = Number(process.env.SOAK_ROUNDS ?? 10)
const WRITERS = 8

tap.setTimeout(ROUNDS * 60_000)

/**
 * Three processes on one PostgreSQL server, under load. In each round the server crashes and comes
 * back, and one of the processes is killed and started again. A client waits at each of them throughout.
 */
tap.test(`${ROUNDS} crashes of the server and of a process, under load`, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const database: TestDatabase = {
    name: 'PostgreSQL',
    create: async () => ({ dataDir: t.testdir(), databaseUrl: server.url }),
  }
  const { options, ...admin } = await startServer(t, { database })
  const token = await admin.createToken('acme')
  const [sha = ''] = (await admin.createRepository('acme/repo')).commits
  const ports = [await freePort(), await freePort(), await freePort()]
  const start = (port: number | undefined) => startInstance(t, options, { PORT: String(port) })
  const instances = await Promise.all(ports.map(start))
  const waits = instances.map(({ url }) =>
    commandLine(
      t,
      ['wait', sha, '--repo', 'acme/repo', '--require', 'end', '--only', '--timeout', `${ROUNDS}m`],
      {
        env: { COMMIT_STATUS_URL: url, COMMIT_STATUS_TOKEN: token },
      },
    ),
  )

  const acknowledged = new Map<string, string>()
  const reportThrough = async (instance: Instance | undefined, context: string, description: string) => {
    assert(instance)
    const body = { state: 'success', context, description }
    return (await instance.report('acme/repo', sha, body, token)).status
  }

  async function recovery(instance: Instance): Promise<number> {
    const since = performance.now()
    while ((await reportThrough(instance, 'probe', '')) !== 201);
    return performance.now() - since
  }

  // Each counts up in a context of its own: what is stored must be what was acknowledged last, or
  // reported since.
  const load = startLoad(WRITERS, async (worker, index) => {
    const status = await reportThrough(instances[index % instances.length], `${worker}`, `${index}`)
    if (status === 201) acknowledged.set(`${worker}`, `${index}`)
    return status
  })
  let slowest = 0
  for (let round = 0; round < ROUNDS; round++) {
    await server.crash()
    for (const instance of instances) slowest = Math.max(slowest, await recovery(instance))
    const at = round % instances.length
    const child = instances[at]?.child
    if (child) {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    }
    instances[at] = await start(ports[at])
  }
  await load.stop()

  t.comment(`answers by status: ${JSON.stringify(load.answers)}; slowest recovery ${Math.round(slowest)} ms`)
  t.ok(slowest < 5_000)
  t.same(
    Object.keys(load.answers).filter((status) => !['201', '503', 'connection lost'].includes(status)),
    [],
    'nothing else is answered',
  )
  t.equal(await reportThrough(instances[0], 'end', ''), 201)
  for (const { finished } of waits)
    t.match(await finished, { code: 0, stdout: /^success: / }, 'a wait goes on')
  const { json } = await admin.read('acme/repo', sha)
  const stored = new Map(json.statuses?.map(({ context, description }) => [context, description]))
  t.equal(acknowledged.size, WRITERS)
  for (const [context, description] of acknowledged) t.ok(Number(stored.get(context)) >= Number(description))
  if (t.counts.fail > 0) return
  recordEvidence(
    'failover',
    'PostgreSQL crashed, and one of three instances was killed, under load',
    `${ROUNDS} crashes and ${ROUNDS} kills: none of ${load.answers[201]} acknowledged reports was lost; at most ${Math.round(slowest)} ms until reports were stored again`,
  )
})
