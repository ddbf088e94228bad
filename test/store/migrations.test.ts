import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { type Test, test } from 'tap'
import { openStore, type StoreOptions } from '../../src/store/store.ts'
import { createPostgresDatabase, temporaryFolder } from '../helpers/databases.ts'

const empty = [
  { name: 'SQLite', create: async (t: Test): Promise<StoreOptions> => ({ dataDir: temporaryFolder(t) }) },
  {
    name: 'PostgreSQL',
    create: async (t: Test): Promise<StoreOptions> => ({
      dataDir: temporaryFolder(t),
      databaseUrl: await createPostgresDatabase(t),
    }),
  },
]

interface Opener {
  child: ChildProcess
  /** Returns the next line of its output. */
  line(): Promise<string>
  open(options: StoreOptions, work?: 'half-way'): void
}

/** Starts a process that is ready to open a database. */
async function startOpener(t: Test): Promise<Opener> {
  const child = spawn(process.execPath, [resolve(import.meta.dirname, 'fixtures/open.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const line = async () => String((await lines.next()).value)
  t.equal(await line(), 'ready')
  return { child, line, open: (options, work) => child.stdin.write(`${JSON.stringify({ options, work })}\n`) }
}

test('migrations', async (t) => {
  const openers = await Promise.all(Array.from({ length: 10 }, () => startOpener(t)))

  for (const database of empty) {
    t.test(`ten processes open an empty ${database.name} database at once`, async (t) => {
      const options = await database.create(t)
      for (const opener of openers) opener.open(options)
      for (const opener of openers) t.equal(await opener.line(), '{"users":[]}')
      const store = await openStore(options)
      t.teardown(() => store.close())
      t.same(await store.migrate(), [], 'no pending migrations')
    })
  }

  for (const database of empty) {
    t.test(`a killed migration of ${database.name} leaves nothing behind`, async (t) => {
      const options = await database.create(t)
      const [killed, waiting] = [openers.pop(), openers.pop()]
      killed?.open(options, 'half-way')
      t.equal(await killed?.line(), 'half-way')
      waiting?.open(options)
      killed?.child.kill('SIGKILL')
      t.equal(await waiting?.line(), '{"users":[]}')
    })
  }
})
