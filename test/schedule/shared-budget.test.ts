import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { SharedBudget } from '../../src/schedule/shared-budget.ts'

t.test('a client holds at most its share, and all clients at most the total', async (t) => {
  const budget = new SharedBudget(10, 5)
  const [a, other, b, c] = ['a', 'a', 'b', 'c'].map((client) => budget.open(client))
  if (!a || !other || !b || !c) throw new Error('there are four holders')
  t.equal(a.take(4), true)
  t.equal(other.take(2), false, 'the share of a')
  t.equal(b.take(4), true)
  t.equal(c.take(3), false, 'the total')
  t.equal(c.take(2), true)
  t.equal(other.take(1), false, 'the total')
  a.release()
  t.equal(b.take(5), false, 'the total')
  t.equal(b.take(4), true, 'what one holder alone has of its client is not bounded by the share')
  t.same([budget.heldBy('b'), budget.heldBy('a')], [8, 0])
  b.release(100)
  t.equal(budget.taken, 2)
})

t.test('the client that holds most gives way to one that holds less', async (t) => {
  const budget = new SharedBudget(10)
  const lost: string[] = []
  const open = (client: string, name: string) => budget.open(client, () => lost.push(name))
  const [small, large, kept] = [open('a', 'small'), open('a', 'large'), open('a', 'kept')]
  t.ok(kept.take(2) && small.take(2) && large.take(5), 'one client may take everything')
  kept.keep()
  t.ok(kept.take(1), 'this does not give way either')
  t.equal(open('a', 'own').take(1), false, 'a client does not displace itself')
  const other = open('b', 'other')
  t.equal(other.take(4), true)
  t.same(lost, ['large'])
  t.equal(other.take(3), false, 'b would hold more than a')
  t.equal(budget.heldBy('a'), 5)
  t.equal(open('c', 'third').take(3), true)
  t.same([lost, budget.heldBy('a')], [['large', 'small'], 3])
  other.keep()
  t.equal(open('d', 'fourth').take(1), true)
  t.same(lost, ['large', 'small', 'third'], 'who holds more is asked only if it may give way')
  t.equal(budget.taken, 8)
  t.ok(open('e', 'fifth').take(2) && open('f', 'sixth').take(1))
  t.same(lost, ['large', 'small', 'third', 'fifth'], 'who has nothing is not asked')
})

t.test('nothing is gained by releasing twice, by many holders, or by what gave way', async (t) => {
  const budget = new SharedBudget(10, 4)
  const holders = Array.from({ length: 8 }, () => budget.open('a', () => {}))
  t.equal(holders.filter((holder) => holder.take(1)).length, 4, 'one share, whatever number of holders')
  const [first, second] = holders
  for (let times = 0; times < 3; times++) first?.release()
  t.same([budget.heldBy('a'), budget.taken], [3, 3])
  const others = ['b', 'c', 'd'].map((client) => budget.open(client))
  t.ok(
    [4, 3, 1].every((amount, index) => others[index]?.take(amount)),
    'the second one has given way',
  )
  second?.release()
  t.equal(budget.heldBy('a'), 2)
  for (const other of others) other.release()
  t.equal(holders.filter((holder) => holder.take(1)).length, 2, 'what was released, and no more')
})

t.test('a holder that got nothing, or has lost or released it, takes no memory', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const budget = new SharedBudget(2)
  const open = (client: string) => budget.open(client, () => {})
  const refused = () => {
    const holder = open('a')
    t.notOk(holder.take(1))
    return new WeakRef(holder)
  }
  const released = () => {
    const holder = open('b')
    t.ok(holder.take(1))
    holder.release()
    return new WeakRef(holder)
  }
  const lost = () => {
    const holder = open('a')
    t.ok(holder.take(2))
    return new WeakRef(holder)
  }
  const holders = [lost(), refused(), released()]
  await setImmediate()
  collect()
  t.same(
    holders.map((holder) => holder.deref()),
    [undefined, undefined, undefined],
  )
})
