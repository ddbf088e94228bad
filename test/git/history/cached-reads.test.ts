import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { filesState } from '../../../src/git/file-state.ts'
import { CachedReads, createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { FairQueue, type QueueClient, QueueFull } from '../../../src/schedule/fair-queue.ts'
import { until } from '../../helpers/until.ts'
import { createSample } from '../sample-repository.ts'

/** Milliseconds after which a change is no longer too recent to be told from the next one. */
const SETTLED = 100

t.test('a value is not kept if its files changed while it was read', async (t) => {
  const sample = await createSample(t)
  const file = join(sample.path, 'HEAD')
  writeFileSync(file, 'before')
  const reads = new CachedReads<{ text: string }>(createGitQueue(), 100_000, () => 1)
  let isPushed = false
  const get = () =>
    reads.get(
      sample,
      'text',
      { address: '192.0.2.1' },
      {
        state: () => filesState([file], 'own'),
        async read() {
          const text = readFileSync(file, 'utf8')
          if (!isPushed) {
            isPushed = true
            writeFileSync(file, 'after')
            await setTimeout(SETTLED)
          }
          return { text }
        },
      },
    )
  t.same(await get(), { text: 'before' })
  t.same(await get(), { text: 'after' })
})

t.test('a value is kept for a minute at most, and its paths count as memory', async (t) => {
  const sample = await createSample(t)
  const { now } = performance
  let shift = 0
  t.capture(performance, 'now', () => now.call(performance) + shift)
  const reads = new CachedReads<{ text: string }>(createGitQueue(), 30_000, () => 1)
  let count = 0
  const get = (key: string, paths: string[]) =>
    reads.get(
      sample,
      key,
      { address: '192.0.2.1' },
      { state: () => filesState(paths, 'own'), read: async () => ({ text: `${++count}` }) },
    )
  for (const [later, text] of [
    [0, '1'],
    [50_000, '1'],
    [20_000, '2'],
  ] as const) {
    shift += later
    // The cache reads the clock once in a millisecond.
    await setTimeout(5)
    t.same(await get('short', []), { text }, `after ${shift} ms`)
  }
  const paths = Array.from({ length: 100 }, (_, index) => join(sample.path, `no-file-${index}`))
  for (const key of ['first', 'second']) await get(key, paths)
  t.same(
    ['first', 'second'].map((key) => reads.has(key)),
    [false, true],
  )
})

t.test('who asks while a value is read gets that value, without another read', async (t) => {
  const sample = await createSample(t)
  const reads = new CachedReads<{ text: string }>(createGitQueue(), 100_000, () => 1)
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  let count = 0
  const read = async () => {
    count++
    begun.resolve()
    await end.promise
    return { text: 'x' }
  }
  const get = () => reads.get(sample, 'text', { address: '192.0.2.1' }, { read })
  const first = get()
  await begun.promise
  const others = [get(), get()]
  end.resolve()
  t.same(await Promise.all([first, ...others]), Array(3).fill({ text: 'x' }))
  t.equal(count, 1)
})

t.test('who asks for what waits for the turn of another client has its own turn', async (t) => {
  const sample = await createSample(t)
  const queue = new FairQueue({ slots: 4, slotsPerClient: 2, waitingPerClient: 4, timeout: 60_000 })
  const reads = new CachedReads<{ text: string }>(queue, 100_000, () => 1)
  const [busy, other, idle] = [{ address: '192.0.2.1' }, { address: '192.0.2.2' }, { address: '192.0.2.3' }]
  const end = Promise.withResolvers<void>()
  let count = 0
  const get = (key: string, client: QueueClient, until?: Promise<void>) =>
    reads.get(sample, key, client, {
      read: async () => {
        count++
        await until
        return { text: key }
      },
    })
  const slow = ['a', 'b', 'c', 'd'].map((key) => get(key, busy, end.promise))
  const same = [get('first', busy), get('second', busy)]
  await until(() => queue.waiting === 4)
  await t.rejects(get('third', busy), QueueFull)
  t.same(await Promise.all([get('first', other), get('first', idle)]), Array(2).fill({ text: 'first' }))
  t.same(await same[0], { text: 'first' }, 'also those who waited before, whose turn has not come')
  t.equal(count, 3, 'it was read once')
  t.equal(queue.waiting, 3)

  const gone = new AbortController()
  const held = [idle, other].map((client) => queue.run(client, () => end.promise))
  const left = get('second', { ...other, signal: gone.signal })
  await until(() => queue.waitingFor(other.address) === 1)
  gone.abort(new Error('gone'))
  await t.rejects(left, { message: 'gone' })
  await until(() => queue.waitingFor(other.address) === 0)
  t.equal(queue.waiting, 3, 'the read waits on')
  end.resolve()
  await Promise.all([...slow, ...same, ...held])
  t.same([queue.taken, queue.waiting, count], [0, 0, 6])
})

t.test('no client takes all places of git', async (t) => {
  const queue = createGitQueue(4)
  const end = Promise.withResolvers<void>()
  const held = Array.from({ length: 4 }, () => queue.run({ address: '192.0.2.1' }, () => end.promise))
  t.equal(
    await Promise.race([queue.run({ address: '192.0.2.2' }, async () => 'at once'), setTimeout(1_000)]),
    'at once',
  )
  end.resolve()
  await Promise.all(held)
})
