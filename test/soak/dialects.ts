import tap from 'tap'
import { databases } from '../helpers/databases.ts'
import { compareDatabases } from '../helpers/differential.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'

tap.setTimeout(600_000)
await provideDatabases(tap)

/** Sends 20,000 random requests. SOAK_SEED repeats a run that found a difference. */
tap.test('20,000 random requests are answered the same on every database', async (t) => {
  const seed = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000)
  t.comment(`seed ${seed}`)
  const { difference, statuses } = await compareDatabases(t, databases, { operations: 20_000, seed })
  t.equal(difference, null, `seed ${seed}`)
  t.comment(`answers by status: ${JSON.stringify(Object.fromEntries(statuses))}`)
})
