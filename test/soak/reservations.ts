import tap from 'tap'
import { openStore } from '../../src/store/store.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { playHistories } from '../helpers/reservation-histories.ts'

const HISTORIES = Number(process.env.HISTORIES ?? 1_000)

tap.setTimeout(3_600_000)
await provideDatabases(tap)

for (const database of databases)
  tap.test(`${database.name}: ${HISTORIES} random histories of reservations, at two servers`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const other = await openStore(options)
    t.teardown(() => other.close())
    // Tokens of deleted users are sent thousands of times.
    const environment = { AUTH_FAILURE_LIMIT: '1000000' }
    const servers = await Promise.all([
      startInstance(t, options, environment),
      startInstance(t, options, environment),
    ])
    const seed = Date.now() % 1_000_000
    const counts = await playHistories([store, other], servers, { seed, histories: HISTORIES })
    t.comment(`seed ${seed}: ${JSON.stringify(counts)}`)
    t.ok(counts.taken > HISTORIES && counts.reserved > HISTORIES && counts.gone > 0)
  })
