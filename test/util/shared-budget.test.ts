import t from 'tap'
import { SharedBudget } from '../../src/util/shared-budget.ts'

t.test('a client holds at most half of the total, and all clients at most all of it', async (t) => {
  const budget = new SharedBudget(10)
  t.equal(budget.take('a', 4), true)
  t.equal(budget.take('a', 2), false, 'the share of a')
  t.equal(budget.take('b', 4), true)
  t.equal(budget.take('c', 3), false, 'the total')
  t.equal(budget.take('c', 2), true)
  budget.release('a', 4)
  t.equal(budget.take('b', 2), false, 'the share of b')
  t.equal(budget.take('b', 1), true)
  t.equal(budget.take('c', 3), true)
  t.equal(budget.take('a', 1), false)
  t.same([budget.clients, budget.heldBy('b'), budget.heldBy('a')], [2, 5, 0], 'a takes no memory')
})

t.test('what a caller alone holds of its client is not bounded by the share', async (t) => {
  const budget = new SharedBudget(10, 4)
  t.equal(budget.take('a', 4, 0), true)
  t.equal(budget.take('a', 1, 0), false, 'the client holds more')
  t.equal(budget.take('a', 5, 4), true)
  t.equal(budget.take('a', 2, 9), false, 'the total')
  t.equal(budget.taken, 9)
})
