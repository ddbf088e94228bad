import t from 'tap'
import { SharedBudget, takeAll } from '../../src/util/shared-budget.ts'

t.test('a client holds at most its share, and all clients at most the total', async (t) => {
  const budget = new SharedBudget(10, 4)
  t.equal(budget.take('a', 4), true)
  t.equal(budget.take('a', 1), false, 'the share of a')
  t.equal(budget.take('b', 4), true)
  t.equal(budget.take('c', 3), false, 'the total')
  t.equal(budget.take('c', 2), true)
  budget.release('a', 4)
  t.equal(budget.take('b', 1), false, 'the share of b')
  t.equal(budget.take('c', 2), true)
  t.equal(budget.taken, 8)
  t.equal(new SharedBudget(10).take('a', 6), false, 'half of the total by default')
})

t.test('takes of all budgets or of none', async (t) => {
  const [wide, narrow] = [new SharedBudget(10, 10), new SharedBudget(2, 2)]
  t.equal(
    takeAll('a', [
      [wide, 5],
      [narrow, 3],
    ]),
    null,
  )
  t.same([wide.taken, narrow.taken], [0, 0])
  const release = takeAll('a', [
    [narrow, 2],
    [wide, 5],
  ])
  t.same([wide.taken, narrow.taken], [5, 2])
  release?.()
  t.same([wide.taken, narrow.taken], [0, 0])
})
