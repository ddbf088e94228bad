import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { uptime } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { removeLeftovers, removeStaleLocks } from '../../src/git/leftovers.ts'
import { temporaryFolder } from '../helpers/databases.ts'
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

t.test('locks of a folder to which refs is a link stay', async (t) => {
  const { path } = await createSample(t)
  const elsewhere = join(temporaryFolder(t), 'refs')
  renameSync(join(path, 'refs'), elsewhere)
  symlinkSync(elsewhere, join(path, 'refs'))
  const lock = join(elsewhere, 'x.lock')
  writeFileSync(lock, '')
  utimesSync(lock, 1, 1)
  await removeStaleLocks(path)
  t.ok(existsSync(lock))
})

t.test(
  'objects of killed pushes are removed once nobody, on any machine, can be receiving them',
  async (t) => {
    const folder = temporaryFolder(t)
    const imported = join(temporaryFolder(t), 'imported')
    const longest = (uptime() + 60) * 1000
    const day = 86_400_000
    const create = (repository: string, name: string, age: number) => {
      const path = join(repository, 'objects', `tmp_objdir-incoming-${name}`)
      mkdirSync(join(path, 'pack'), { recursive: true })
      utimesSync(path, 0, (Date.now() - age) / 1000)
    }
    create(join(folder, '1.git'), 'old', longest + 60_000)
    create(join(folder, '1.git'), 'young', longest - 30_000)
    create(imported, 'old', Math.max(longest, day) + 60_000)
    create(imported, 'young', day - 60_000)
    for (const repository of [join(folder, '1.git'), imported]) {
      const packs = join(repository, 'objects/pack')
      mkdirSync(packs)
      for (const [name, text, age] of [
        ['old', 'receive-pack 1 on host', Math.max(longest, day) + 60_000],
        ['young', 'receive-pack 1 on host', longest - 30_000],
        ['others', 'too large', Math.max(longest, day) + 60_000],
      ] as const) {
        writeFileSync(join(packs, `${name}.keep`), text)
        utimesSync(join(packs, `${name}.keep`), 0, (Date.now() - age) / 1000)
      }
    }
    const drafts = ['new-0123456789abcdef.git', 'new-fedcba9876543210.git', 'new-0123456789abcdef.git.kept']
    for (const [index, age] of [day + 60_000, day - 60_000, day + 60_000].entries()) {
      const path = join(folder, drafts[index] ?? '')
      mkdirSync(path)
      utimesSync(path, 0, (Date.now() - age) / 1000)
    }
    await removeLeftovers(folder, [], 1_000_000_000_000)
    t.ok(
      drafts.every((name) => existsSync(join(folder, name))),
      'a push may take that long',
    )
    await removeLeftovers(folder, [], longest)
    const kept = longest > day ? drafts : drafts.slice(1)
    t.same(
      readdirSync(folder).filter((name) => name.startsWith('new-')),
      kept.sort(),
      'drafts of a day ago',
    )
    mkdirSync(join(folder, '0.git.unreadable'))
    writeFileSync(join(folder, '0.git.unreadable/objects'), '')
    await t.rejects(removeLeftovers(folder, [join(folder, 'gone'), imported], longest), { code: 'ENOTDIR' })
    for (const repository of [join(folder, '1.git'), imported])
      t.same(readdirSync(join(repository, 'objects'), { recursive: true }).sort(), [
        'pack',
        'pack/others.keep',
        'pack/young.keep',
        'tmp_objdir-incoming-young',
        'tmp_objdir-incoming-young/pack',
      ])
  },
)
