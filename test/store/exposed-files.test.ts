import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findExposed } from '../../src/store/exposed-files.ts'
import { temporaryFolder } from '../helpers/databases.ts'

/** Creates a data directory with the modes of an earlier version. */
function openFolder(t: Test, name = 'data'): string {
  const folder = join(realpathSync(temporaryFolder(t)), name)
  mkdirSync(join(folder, 'repositories/1.git/objects'), { recursive: true })
  for (const file of ['commit-status.db', 'commit-status.db-wal', 'repositories/1.git/HEAD'])
    writeFileSync(join(folder, file), '')
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', folder])
  return folder
}

t.test('finds databases, repositories and their folders', async (t) => {
  const folder = openFolder(t)
  const exposed = await findExposed(folder)
  const expected = ['', 'commit-status.db', 'commit-status.db-wal', 'repositories', 'repositories/1.git']
  t.same(
    exposed?.paths.sort(),
    expected.map((name) => join(folder, name)),
  )
  t.equal(exposed?.command, `chmod -R go-rwx -- '${folder}'`)
})

t.test('the command removes the access, for any name of the folder', async (t) => {
  for (const name of ["o'brien's $(data)", '-R', 'line\nbreak']) {
    const folder = openFolder(t, name)
    const exposed = await findExposed(folder)
    execFileSync('sh', ['-c', exposed?.command ?? 'false'])
    t.equal(await findExposed(folder), null, name)
  }
})

t.test('ignores the content of a private folder', async (t) => {
  const folder = openFolder(t)
  chmodSync(folder, 0o700)
  t.equal(await findExposed(folder), null)
  chmodSync(folder, 0o711)
  chmodSync(join(folder, 'repositories'), 0o700)
  for (const name of ['commit-status.db', 'commit-status.db-wal']) chmodSync(join(folder, name), 0o600)
  t.same((await findExposed(folder))?.paths, [folder])
})

t.test('finds a single file', async (t) => {
  const folder = openFolder(t)
  execFileSync('chmod', ['-R', 'go-rwx', folder])
  for (const [mode, found] of [
    [0o640, true],
    [0o602, true],
    [0o600, false],
  ] as const) {
    chmodSync(folder, 0o710)
    chmodSync(join(folder, 'commit-status.db'), mode)
    const paths = (await findExposed(folder))?.paths ?? []
    t.equal(paths.includes(join(folder, 'commit-status.db')), found, mode.toString(8))
  }
})

t.test('follows a link to the repositories', async (t) => {
  const elsewhere = openFolder(t)
  const folder = join(realpathSync(temporaryFolder(t)), 'data')
  mkdirSync(folder, { mode: 0o700 })
  symlinkSync(join(elsewhere, 'repositories'), join(folder, 'repositories'))
  symlinkSync('/etc', join(folder, 'link'))
  const exposed = await findExposed(folder)
  t.same(exposed?.paths.sort(), [join(elsewhere, 'repositories'), join(elsewhere, 'repositories/1.git')])
  t.equal(exposed?.command, `chmod -R go-rwx -- '${join(elsewhere, 'repositories')}'`)
  chmodSync(folder, 0o755)
  t.match((await findExposed(folder))?.command, `'${folder}' '${join(elsewhere, 'repositories')}'`)
})

t.test('accepts a missing folder', async (t) => {
  t.equal(await findExposed(join(temporaryFolder(t), 'none')), null)
})
