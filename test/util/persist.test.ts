import t from 'tap'
import { StoreUnavailable } from '../../src/store/engine.ts'
import { persist } from '../../src/util/persist.ts'

t.test('a write is repeated while the database is away', async (t) => {
  let attempts = 0
  const write = async () => {
    attempts++
    if (attempts < 3) throw new StoreUnavailable('away')
    return 'stored'
  }
  t.equal(await persist(write), 'stored')
  t.equal(attempts, 3)
})

t.test('an error of the program is not repeated', async (t) => {
  let attempts = 0
  const write = async () => {
    attempts++
    throw new TypeError('a bug')
  }
  await t.rejects(persist(write), { message: 'a bug' })
  t.equal(attempts, 1)
})
