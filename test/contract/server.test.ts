import t from 'tap'
import { contractFile } from '../helpers/contract.ts'
import { databases } from '../helpers/databases.ts'
import { startServer } from '../helpers/server.ts'
import { lockOut } from './answers.ts'
import { checks } from './checks.ts'
import { Client } from './client.ts'
import { Coverage } from './coverage.ts'
import type { Run } from './run.ts'
import { readContract } from './spec.ts'
import { storeAdministration } from './store-administration.ts'
import { createWorld } from './world.ts'

const contract = await readContract(contractFile)
const RUNS = 25
const FAILURES = 5_000

for (const database of databases) {
  t.test(`the server keeps its contract on ${database.name}`, async (t) => {
    const coverage = new Coverage(contract)
    const start = async (limit: number): Promise<Run> => {
      const server = await startServer(t, { database, budget: { limit, window: 300 } })
      const client = new Client(contract, server.url, coverage)
      t.teardown(() => client.close())
      const world = await createWorld(storeAdministration(server.store))
      return { client, world, seed: Date.now() | 0, runs: RUNS, failuresLeft: limit - 10 }
    }
    const run = await start(FAILURES)
    t.comment(`seed ${run.seed}`)
    for (const check of checks) await t.test(check.name, () => check.run(run))

    await t.test(lockOut.name, async () => lockOut.run(await start(3)))
    await t.test('every declared answer was seen, and no other', async (t) => {
      t.comment(`\n${coverage.table()}`)
      t.strictSame(coverage.missing(), [])
    })
  })
}
