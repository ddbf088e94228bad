import { test } from 'tap'
import { databases } from '../helpers/databases.ts'
import { compareDatabases } from '../helpers/differential.ts'

test('random requests are answered the same on every database', async (t) => {
  const { difference, statuses } = await compareDatabases(t, databases, { operations: 400, seed: 1 })
  t.equal(difference, null)
  for (const status of [200, 201, 304, 400, 401, 403, 404, 422])
    t.ok(statuses.get(status), `${status} was met`)
})
