import t from 'tap'
import { type OrderedCall, RowOrder } from '../../src/schedule/row-order.ts'

interface Call extends OrderedCall<Call> {}

const callsOf = (...rows: (string | undefined)[]) => rows.map((row): Call => ({ row }))

t.test('a call is next when those of its row before it have ended or are in the batch', async (t) => {
  const order = new RowOrder<Call>()
  const calls = callsOf('a', 'b', 'a', undefined, 'a')
  const [first, other, second, free, third] = calls as [Call, Call, Call, Call, Call]
  for (const call of calls) order.add(call)
  const next = (...batch: Call[]) => calls.map((call) => order.isNext(call, batch))
  t.same(next(), [true, true, false, true, false])
  t.same(next(first), [true, true, true, true, false])
  t.same(next(first, second), [true, true, true, true, true])

  t.equal(order.remove(second), true, 'one that has ended before its turn')
  t.same(order.isNext(third, []), false, 'the others still wait for those before it')
  t.equal(order.remove(second), false, 'it is removed once')
  t.equal(order.remove(third), true)
  const [later] = callsOf('a') as [Call]
  order.add(later)
  t.equal(order.isNext(later, []), false, 'one that comes after the last has ended waits for the first')
  t.equal(order.remove(first), true)
  t.equal(order.isNext(later, []), true)
  t.equal(order.remove(later), false)
  t.equal(order.remove(other), false)
  t.equal(order.remove(free), false)

  const [again] = callsOf('a') as [Call]
  order.add(again)
  t.equal(order.isNext(again, []), true, 'nothing of those that have ended is left')
})

t.test('the time for a call does not depend on how many of its row are waiting', async (t) => {
  const millisecondsOf = (count: number) => {
    const order = new RowOrder<Call>()
    const calls = callsOf(...Array.from({ length: count }, () => 'a'))
    const start = process.cpuUsage()
    for (const call of calls) order.add(call)
    for (const call of calls) order.isNext(call, [])
    for (const call of calls) order.remove(call)
    return process.cpuUsage(start).user / 1000
  }
  millisecondsOf(2_000)
  // Were it quadratic, it would be seconds.
  t.ok(millisecondsOf(40_000) < 200)
})
