import tap from 'tap'
import { compareHistories } from '../branches/random-histories.ts'
import { databases } from '../helpers/databases.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'

tap.setTimeout(1_800_000)
await provideDatabases(tap)

for (const database of databases)
  tap.test(`${database.name}: 1,000 random histories`, (t) => compareHistories(t, database, 1_000))
