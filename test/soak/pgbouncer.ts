import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { postgres, temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { startProcess } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'
import { startLoad } from './parts/load.ts'
import { requireProgram } from './parts/programs.ts'

/**
 * Two instances on PostgreSQL behind PgBouncer, in each of its modes. With sessions every request
 * is answered; with the other modes the server does not start, also while others do.
 */
const STARTS = 5
/** Milliseconds. */
const LOAD = 5_000

tap.setTimeout(900_000)
requireProgram('pgbouncer')
await provideDatabases(tap)

/** Starts PgBouncer. @returns the URL of the database through it */
async function startPgBouncer(t: Test, databaseUrl: string, mode: string, more = ''): Promise<string> {
  const { username, password, hostname, port, pathname } = new URL(databaseUrl)
  const own = await freePort()
  const folder = temporaryFolder(t)
  chmodSync(folder, 0o755)
  const settings = `[databases]
* = host=${hostname} port=${port} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = 40
ignore_startup_parameters = statement_timeout, idle_in_transaction_session_timeout
log_connections = 0
log_disconnections = 0
${more}
`
  writeFileSync(join(folder, 'pgbouncer.ini'), settings)
  const account = process.getuid?.() === 0 ? ['--user=nobody'] : []
  const child = spawn('pgbouncer', ['--quiet', ...account, join(folder, 'pgbouncer.ini')], {
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await setTimeout(500)
  return `postgres://${username}@127.0.0.1:${own}${pathname}`
}

tap.test('PgBouncer', async (t) => {
  const { options, createRepository, createToken } = await startServer(t, { database: postgres })
  const [commit = ''] = (await createRepository('acme/rocket', { commits: 1 })).commits
  const token = await createToken('acme')
  const direct = options.databaseUrl ?? assert.fail()

  await t.test('pool_mode = session', async (t) => {
    const databaseUrl = await startPgBouncer(t, direct, 'session')
    const instances = [
      await startInstance(t, { ...options, databaseUrl }),
      await startInstance(t, { ...options, databaseUrl }),
    ]
    const load = startLoad(8, async (worker, index) => {
      const { report, read } = instances[(worker + index) % 2] ?? assert.fail()
      const body = { state: 'success', context: `ci/${worker}` }
      const answer =
        index % 2 ? await read('acme/rocket', commit) : await report('acme/rocket', commit, body, token)
      return answer.status
    })
    await setTimeout(LOAD)
    await load.stop()
    t.comment(JSON.stringify(load.answers))
    t.same(Object.keys(load.answers).sort(), ['200', '201'])
  })

  for (const [mode, more] of [
    ['transaction', ''],
    ['transaction', 'server_round_robin = 1'],
    ['statement', ''],
  ] as const)
    await t.test(`pool_mode = ${mode} ${more}`, async (t) => {
      const databaseUrl = await startPgBouncer(t, direct, mode, more)
      for (let count = 0; count < STARTS; count++) {
        const environment = { DATABASE_URL: databaseUrl, DATA_DIR: options.dataDir, PORT: '0' }
        // From the second on beside each other.
        const starts = Array.from({ length: count + 1 }, () =>
          startProcess(t, process.execPath, ['src/server.ts'], environment),
        )
        for (const { ended, printed, stderr } of starts) {
          const code = await Promise.race([ended, printed(/^Listening /m).then(() => 'serves')])
          t.match(
            { code, text: stderr() },
            { code: 1, text: /^DATABASE_URL: .*(pool_mode = session|statement pooling)/ },
          )
        }
      }
    })
})
