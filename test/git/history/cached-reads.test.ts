import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { filesState } from '../../../src/git/file-state.ts'
import { CachedReads, createGitQueue } from '../../../src/git/history/cached-reads.ts'
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
