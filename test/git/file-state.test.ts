import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { filesState, isCurrent, isSettled } from '../../src/git/file-state.ts'
import { readRefsState } from '../../src/git/refs/head.ts'
import { block } from '../helpers/block.ts'
import { copyBareRepository } from '../helpers/git.ts'
import { temporaryFolder } from './sample-repository.ts'

t.test('a change is settled after 50 ms where times are fine and given by one clock', (t) => {
  const now = 1_800_000_000_000
  /** Milliseconds after a second at which a change was, and its age. */
  const cases = [
    { at: 500, age: 50, own: false, shared: false },
    { at: 500, age: 51, own: true, shared: false },
    { at: 500, age: 2_000, own: true, shared: false },
    { at: 500, age: 2_001, own: true, shared: true },
    { at: 0, age: 2_000, own: false, shared: false },
    { at: 0, age: 2_001, own: true, shared: true },
    { at: 500, age: -1, own: false, shared: false },
    { at: 0, age: -5_000, own: false, shared: false },
  ]
  for (const { at, age, own, shared } of cases) {
    const changedAt = BigInt(now + at) * 1_000_000n
    t.equal(isSettled(changedAt, now + at + age, 'own'), own, `${at} ms, ${age} ms ago`)
    t.equal(isSettled(changedAt, now + at + age, 'shared'), shared, `${at} ms, ${age} ms ago, shared`)
  }
  t.end()
})

t.test('what lies on the own disk is read at once, with the same state as elsewhere', async (t) => {
  const folder = temporaryFolder(t)
  const at = (name: string) => join(folder, name)
  writeFileSync(at('file'), 'x')
  mkdirSync(at('folder'))
  for (const [name, target] of [
    ['link', 'file'],
    ['broken', 'missing'],
    ['loop', 'loop'],
  ] as const)
    symlinkSync(target, at(name))
  const names = ['file', 'folder', 'link', 'broken', 'loop', 'missing', 'file/below', 'n'.repeat(300)]
  for (const name of names) {
    const [own, shared] = await Promise.all([filesState([at(name)], 'own'), filesState([at(name)], 'shared')])
    t.equal(own.stamps, shared.stamps, name.slice(0, 10))
    t.equal(own.stamps === '', ['missing', 'file/below', 'n'.repeat(300)].includes(name))
  }
  await setTimeout(100)
  for (const count of [names.length, 40]) {
    const paths = Array.from({ length: count }, (_, index) => at(names[index] ?? 'missing'))
    const state = await filesState(paths, 'own')
    t.ok(await isCurrent(state), `${count} files`)
    writeFileSync(at('missing'), '')
    t.notOk(await isCurrent(state), `a broken link of ${count} files leads somewhere`)
    rmSync(at('missing'))
    await setTimeout(100)
  }
})

t.test('what changes while files are read is not settled, however long that takes', async (t) => {
  const path = join(temporaryFolder(t), 'r.git')
  await copyBareRepository(path, 'sha1')
  await setTimeout(100)
  t.ok((await readRefsState(path, 'own')).settled)
  const reading = readRefsState(path, 'own')
  // A folder whose own changes this state may not show.
  mkdirSync(join(path, 'refs/heads/folder'))
  // The process does not go on for a while, as on a busy machine.
  block(200)
  t.notOk((await reading).settled)
})

t.test('1,000 pushes while two servers list branches: no answer is older than a push', async (t) => {
  const folder = temporaryFolder(t)
  const program = `exec "$0" ${join(import.meta.dirname, 'fixtures/pushes-and-lists.ts')} ${folder}`
  // On a file system that gives changes the time of the last tick, and no finer one once somebody
  // has looked, as most do on Linux since 6.13. Only root can mount one.
  const mount = `mount -t ramfs none ${folder}`
  const isRoot = spawnSync('unshare', ['-m', 'sh', '-c', mount]).status === 0
  const command = isRoot ? ['unshare', '-m', 'sh', '-c', `${mount}; ${program}`] : ['sh', '-c', program]
  const [file = '', ...args] = [...command, process.execPath]
  const { stdout } = await promisify(execFile)(file, args)
  const { old, cached } = JSON.parse(stdout)
  t.equal(old, 0)
  t.ok(cached > 0, `${cached} lists came from memory`)
})
