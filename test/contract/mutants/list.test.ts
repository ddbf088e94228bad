import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { faults } from './list.ts'

const root = resolve(import.meta.dirname, '../../..')

t.test('every fault still has its place in the source', async (t) => {
  t.ok(Object.keys(faults).length >= 10)
  for (const [name, { edits }] of Object.entries(faults)) {
    for (const [file, from] of edits)
      t.ok(readFileSync(resolve(root, file), 'utf8').includes(from), `${name}: ${file}`)
  }
})
