import t from 'tap'
import { SlotTime } from '../../src/schedule/slot-time.ts'

t.test('slots count for as long as they were held, and then for no longer', (t) => {
  let now = 0
  const time = new SlotTime(() => now)
  time.take('a')
  time.take('b')
  time.take('b')
  now += 1_500
  t.same([time.secondsOf('a'), time.secondsOf('b'), time.secondsOf('c')], [1, 3, 0])
  time.release('a')
  time.release('b')
  now += 600
  t.same([time.secondsOf('a'), time.secondsOf('b')], [0, 3], 'b holds another one')
  time.release('b')
  now += 3_000
  t.same([time.secondsOf('a'), time.secondsOf('b')], [0, 0])
  time.take('a')
  now += 1_000
  t.equal(time.secondsOf('a'), 1, 'what is over no longer counts')
  t.end()
})

t.test('however long slots were held, ten seconds count', (t) => {
  let now = 0
  const time = new SlotTime(() => now)
  for (let slot = 0; slot < 6; slot++) time.take('a')
  now += 3_600_000
  t.equal(time.secondsOf('a'), 10)
  for (let slot = 0; slot < 6; slot++) time.release('a')
  now += 9_001
  t.equal(time.secondsOf('a'), 0)
  t.end()
})

t.test('many short times count like a long one', (t) => {
  let now = 0
  const time = new SlotTime(() => now)
  for (let count = 0; count < 10; count++) {
    time.take('a')
    now += 900
    time.release('a')
    now += 100
  }
  t.equal(time.secondsOf('a'), 8)
  t.end()
})
