import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { BranchFiles } from '../../../src/git/refs/branch-files.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import { MEGABYTE } from '../../../src/util/memory.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { usedMemory } from '../../helpers/memory.ts'

t.test('lists of long names take a bounded amount of memory', async (t) => {
  const folder = temporaryFolder(t)
  const files = new BranchFiles('own')
  const { signal } = new AbortController()
  const before = await usedMemory()
  for (let repository = 0; repository < 10; repository++) {
    const path = join(folder, `${repository}.git`)
    await createBareRepository(path, 'sha1')
    const lines = Array.from({ length: 10_000 }, (_, index) => {
      const name = String(index).padStart(5, '0') + `/${'x'.repeat(199)}`.repeat(5)
      return `${'1'.repeat(40)} refs/heads/${name}\n`
    })
    writeFileSync(
      join(path, 'packed-refs'),
      `# pack-refs with: peeled fully-peeled sorted \n${lines.join('')}`,
    )
    t.equal((await files.list(path, 20_000, signal))?.length, 10_000)
  }
  t.ok((await usedMemory()) - before < 48 * MEGABYTE)
})
