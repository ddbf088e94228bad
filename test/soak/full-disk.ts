import { execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { databaseUrl, execute, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { startPostgres, unprivileged } from '../helpers/postgres-server.ts'
import { startServer } from '../helpers/server.ts'

tap.setTimeout(300_000)

const SIZE = 64 * 1024 ** 2

/** A file system of its own in memory, which a superuser may mount. */
function mount(t: Test, options = ''): string {
  const folder = mkdtempSync(join(tmpdir(), 'disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}${options}`, 'tmpfs', folder])
  t.teardown(() => {
    execFileSync('umount', ['--lazy', folder])
    rmSync(folder, { recursive: true })
  })
  return folder
}

/** Leaves no room on a disk. @returns makes room again */
function fill(folder: string): () => void {
  const file = join(folder, 'filler')
  const { bavail, bsize } = statfsSync(folder)
  writeFileSync(file, Buffer.alloc(bavail * bsize))
  return () => rmSync(file)
}

const sqlite = async (_t: Test, disk: string): Promise<TestDatabase> => ({
  name: 'SQLite',
  create: async () => ({ dataDir: disk }),
})

/** The log is on another disk, which is not full: the server itself goes on. */
const postgres = async (t: Test, disk: string): Promise<TestDatabase> => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const tables = join(disk, 'tables')
  mkdirSync(tables)
  const account = unprivileged()
  if (account) chownSync(tables, account.uid, account.gid)
  await execute(
    server.url,
    `create tablespace small location '${tables}'`,
    'create database status tablespace small',
  )
  return {
    name: 'PostgreSQL',
    create: async (t) => ({ dataDir: t.testdir(), databaseUrl: databaseUrl(server.url, 'status') }),
  }
}

for (const [name, create] of Object.entries({ SQLite: sqlite, PostgreSQL: postgres })) {
  tap.test(`${name} on a disk that is full`, async (t) => {
    const disk = mount(t)
    const { createRepository, createToken, options } = await startServer(t, {
      database: await create(t, disk),
    })
    const { commits } = await createRepository('acme/rocket')
    const [sha = ''] = commits
    const token = await createToken('acme')
    const instance = await startInstance(t, options)
    const acknowledged: string[] = []
    const report = async (context: string) => {
      const body = { state: 'success', context, description: 'd'.repeat(1_024) }
      const { status } = await instance.report('acme/rocket', sha, body, token)
      if (status === 201) acknowledged.push(context)
      return status
    }
    const ready = async () => (await instance.call('GET', '/readyz')).status
    for (let index = 0; index < 100; index++) await report(`before ${index}`)
    t.equal(acknowledged.length, 100)
    t.equal(await ready(), 200)

    const makeRoom = fill(disk)
    // Some still find room in what the database has allocated.
    let full = 0
    for (let index = 0; full < 20; index++) {
      const status = await report(`full ${index}`)
      t.ok(status === 201 || status === 503)
      if (status === 503) full++
      if (full === 1) await setTimeout(1_100)
    }
    t.equal(await ready(), 503)
    t.equal((await instance.read('acme/rocket', sha)).status, 200)
    t.equal((await instance.call('GET', '/healthz')).status, 200)

    makeRoom()
    const since = performance.now()
    while ((await ready()) !== 200) await setTimeout(100)
    t.comment(`${name}: ready again after ${Math.round(performance.now() - since)} ms`)
    t.equal(await report('after'), 201)
    const { json } = await instance.read('acme/rocket', sha)
    const stored = new Set(json.statuses?.map(({ context }) => context))
    t.same(
      acknowledged.filter((context) => !stored.has(context)),
      [],
    )
    t.equal(acknowledged.length, stored.size, 'nothing that was refused')
  })
}

tap.test('a disk without inodes', async (t) => {
  const disk = mount(t, ',nr_inodes=1000')
  const { options } = await startServer(t, { database: await sqlite(t, disk) })
  const instance = await startInstance(t, options)
  const ready = async () => (await instance.call('GET', '/readyz')).status
  t.equal(await ready(), 200)
  const filler = join(disk, 'filler')
  mkdirSync(filler)
  for (let index = 0; index < 900; index++) writeFileSync(join(filler, `${index}`), '')
  await setTimeout(1_100)
  t.equal(await ready(), 503)
  rmSync(filler, { recursive: true })
  await setTimeout(1_100)
  t.equal(await ready(), 200)
})
