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
