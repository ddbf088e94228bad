import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { removeStaleLocks } from '../../src/git/leftovers.ts'
import { createSample } from './sample-repository.ts'

const LOCKS = ['HEAD.lock', 'packed-refs.lock', 'refs/heads/a/b.lock', 'reftable/tables.list.lock']

t.test('old locks of every way to store refs are removed, recent ones are kept', async (t) => {
  const { path } = await createSample(t)
  const files = LOCKS.map((name) => join(path, name))
  for (const file of files) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, '')
  }
  await removeStaleLocks(path)
  t.ok(files.every(existsSync), 'a recent lock may be held')
  for (const file of files) utimesSync(file, 1, 1)
  await removeStaleLocks(path)
  t.same(files.filter(existsSync), [])
})
