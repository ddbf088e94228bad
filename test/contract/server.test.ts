import t from 'tap'
import { contractFile } from '../helpers/contract.ts'
import { databases, sqlite } from '../helpers/databases.ts'
import { startServer } from '../helpers/server.ts'
import { abuse } from './abuse/run.ts'
import { lockOut } from './answers.ts'
import { checks } from './checks.ts'
import { Client } from './client.ts'
import { Coverage } from './coverage.ts'
import { createFixture } from './fixture.ts'
import { queries } from './queries.ts'
import { commitIds, parameters, refusals } from './refusals.ts'
import type { Run } from './run.ts'
import { readContract } from './spec.ts'
import { storeAdministration } from './store-administration.ts'

const contract = await readContract(contractFile)
const RUNS = 12
const FAILURES = 5_000
/** They send what is refused before a statement runs. */
const WITHOUT_DATABASE = [refusals, parameters, commitIds, queries, abuse]

for (const database of databases) {
  t.test(`the server fulfils its contract on ${database.name}`, async (t) => {
    const coverage = new Coverage(contract)
    const start = async (limit: number): Promise<Run> => {
      const server = await startServer(t, { database, budget: { limit, window: 300 } })
      const client = new Client(contract, server.url, coverage)
      t.teardown(() => client.close())
      const fixture = await createFixture(storeAdministration(server.store))
      const seed = Date.now() | 0
      return { client, fixture, seed, runs: RUNS, failuresLeft: limit - 10, codePointStep: 37 }
    }
    const run = await start(FAILURES)
    t.comment(`seed ${run.seed}`)
    const own = checks.filter((check) => database === sqlite || !WITHOUT_DATABASE.includes(check))
    for (const check of own) await t.test(check.name, () => check.run(run))

    await t.test(lockOut.name, async () => lockOut.run(await start(3)))
    await t.test('every declared answer was seen', async (t) => {
      t.comment(`\n${coverage.table()}`)
      t.strictSame(coverage.missing(), [])
    })
  })
}
