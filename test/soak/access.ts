import tap from 'tap'
import { compareWithModel } from '../helpers/access-model.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'

tap.setTimeout(1_200_000)
await provideDatabases(tap)

/** Decisions to compare on each database. SOAK_SEED repeats a run that found a difference. */
const DECISIONS = 100_000
/** Changes of one history. */
const STEPS = 200

for (const database of databases) {
  tap.test(`${DECISIONS} decisions are those of a model: ${database.name}`, async (t) => {
    let seed = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000)
    let total = 0
    for (; total < DECISIONS && t.passing(); seed++)
      await t.test(`seed ${seed}`, async (t) => {
        const { store } = await openTestStore(t, database)
        const { differences, decisions } = await compareWithModel(store, { steps: STEPS, seed })
        t.same(differences, [])
        total += decisions
      })
    t.comment(`${total} decisions`)
  })
}
