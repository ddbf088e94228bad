import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { GarbageCollector } from '../../../src/git/collect-garbage.ts'
import { openUnchecked } from '../../../src/git/opened-repository.ts'
import { createSample, isRunning } from '../../git/sample-repository.ts'
import { replaceGit } from '../../helpers/git.ts'
import { until } from '../../helpers/until.ts'
import { commit, createCheckout, git, spawnGit, workFolder } from '../client.ts'
import { startGitServer } from '../git-server.ts'

t.test('small pushes stay packs, which are combined after the answer', async (t) => {
  const { url, path, authorization } = await startGitServer(t)
  const packs = () => readdirSync(join(path, 'objects/pack')).filter((name) => name.endsWith('.pack'))
  const loose = () => readdirSync(join(path, 'objects')).filter((name) => /^[0-9a-f]{2}$/.test(name))
  const [packsBefore, looseBefore] = [packs().length, loose()]
  // git looks for garbage after each push, whenever that is, and combines packs after the fourth one.
  await git(path, ['config', 'gc.autoPackLimit', `${packsBefore + 3}`])
  const checkout = await createCheckout(t, url)
  const push = async () => {
    await commit(checkout)
    await git(checkout, ['push', '--quiet', 'origin', 'HEAD:topic'], { authorization })
  }
  for (let count = 0; count < 3; count++) await push()
  t.equal(packs().length, packsBefore + 3)
  t.same(loose(), looseBefore, 'nothing else is loose')
  await push()
  await until(() => packs().length === 1)
  await git(path, ['fsck', '--strict'])
})

t.test('a push does not wait for a collection', async (t) => {
  const { url, path, authorization } = await startGitServer(t)
  const packs = () => readdirSync(join(path, 'objects/pack')).filter((name) => name.endsWith('.pack'))
  await git(path, ['config', 'gc.autoPackLimit', '1'])
  // That of the server. A push would start another program.
  replaceGit(t, 'case "$*" in *" gc "*) exit 1;; esac; exec "$git" "$@"')
  const checkout = await createCheckout(t, url)
  for (let count = 1; count <= 3; count++) {
    const before = packs().length
    await commit(checkout)
    await git(checkout, ['push', '--quiet', 'origin', 'HEAD:topic'], { authorization })
    t.equal(packs().length, before + 1)
  }
})

t.test('git is asked about garbage only where it may find some', async (t) => {
  const { path } = await createSample(t)
  replaceGit(t, `touch ${path}/asked`)
  const isAsked = async () => {
    rmSync(join(path, 'asked'), { force: true })
    await new GarbageCollector(60_000).collect(openUnchecked(path))
    return existsSync(join(path, 'asked'))
  }
  const pack = (index: number, kind = 'pack') =>
    writeFileSync(join(path, `objects/pack/pack-${`${index}`.padStart(40, '0')}.${kind}`), '')
  for (let index = 0; index < 50; index++) pack(index)
  t.notOk(await isAsked())
  pack(50)
  t.ok(await isAsked(), 'more packs than git leaves')
  pack(50, 'keep')
  t.notOk(await isAsked(), 'which are not all combined')
  const folder = join(path, 'objects/17')
  mkdirSync(folder, { recursive: true })
  for (let index = 0; index < 27; index++) writeFileSync(join(folder, `${index}`.padStart(38, '0')), '')
  t.ok(await isAsked(), 'loose objects')
  rmSync(folder, { recursive: true })
  t.notOk(await isAsked())
  writeFileSync(join(path, 'config'), '[core]\n\tbare = true\n[include]\n\tpath = other\n')
  t.ok(await isAsked(), 'its owner may have set other numbers')
})

t.test('a collection that cannot be started rejects nothing, and a stop begins none', async (t) => {
  const { path } = await createSample(t)
  await git(path, ['config', 'gc.autoPackLimit', '1'])
  replaceGit(t, `touch ${path}/asked`)
  const repository = openUnchecked(path)
  const collector = new GarbageCollector(60_000)
  const { PATH = '' } = process.env
  // The system starts no process with so long a variable.
  process.env.PATH = PATH + delimiter + 'x'.repeat(256 * 1024)
  await collector.collect(repository).finally(() => {
    process.env.PATH = PATH
  })
  const stopped = new GarbageCollector(60_000)
  const collected = stopped.collect(repository)
  await Promise.all([stopped.close(), collected])
  t.notOk(existsSync(join(path, 'asked')))
  await new GarbageCollector(60_000).collect(repository)
  t.ok(existsSync(join(path, 'asked')))
})

t.test('a fetch sends large files as they are stored', async (t) => {
  const { url, authorization } = await startGitServer(t)
  const checkout = await createCheckout(t, url)
  const content = randomBytes(1_500_000)
  for (const more of ['one', 'two']) {
    writeFileSync(join(checkout, 'file'), Buffer.concat([content, Buffer.from(more)]))
    await git(checkout, ['add', 'file'])
    await git(checkout, ['commit', '--quiet', '--message', more])
    const push = ['-c', 'core.bigFileThreshold=1m', 'push', '--quiet', 'origin', 'HEAD:topic']
    await git(checkout, push, { authorization })
  }
  const folder = workFolder(t)
  await git(folder, ['clone', '--quiet', '--bare', '--branch', 'topic', url, 'clone'])
  const pack = join(folder, 'clone/objects/pack')
  const bytes = readdirSync(pack).reduce((sum, name) => sum + statSync(join(pack, name)).size, 0)
  t.ok(bytes > 2 * content.length, 'they were not compared with each other')
})

t.test('a collection compares files with each other, but no large ones', async (t) => {
  const { path } = await createSample(t)
  const folder = join(path, 'objects/pack')
  const bytesOf = (name: string) => (name.endsWith('.pack') ? statSync(join(folder, name)).size : 0)
  const importFile = async (file: string, content: Buffer) => {
    const child = spawnGit(path, ['-c', 'fastimport.unpackLimit=0', 'fast-import', '--quiet'], { input: '' })
    child.stdin?.write(`commit refs/heads/${file}\ncommitter a <a@b> 1 +0000\ndata 0\nM 644 inline file\n`)
    child.stdin?.write(`data ${content.length}\n`)
    child.stdin?.end(Buffer.concat([content, Buffer.from('\n')]))
    await once(child, 'close')
  }
  for (const [key, value] of [
    ['pack.compression', '0'],
    ['gc.autoPackLimit', '1'],
  ] as const)
    await git(path, ['config', key, value])
  for (const [size, kept] of [
    [2_000_000, 1],
    [17_000_000, 2],
  ] as const) {
    const content = randomBytes(size)
    const others = readdirSync(folder).reduce((sum, name) => sum + bytesOf(name), 0)
    await importFile(`first-${size}`, content)
    await importFile(`second-${size}`, Buffer.concat([content, Buffer.from('more')]))
    await new GarbageCollector(60_000).collect(openUnchecked(path))
    const packs = readdirSync(folder)
      .map(bytesOf)
      .filter((bytes) => bytes > 0)
    t.equal(packs.length, 1)
    t.equal(Math.round(((packs[0] ?? 0) - others) / size), kept)
  }
})

t.test('a collection that takes too long is stopped with its children, and not tried again', async (t) => {
  const { path } = await createSample(t)
  await git(path, ['config', 'gc.autoPackLimit', '1'])
  const folder = workFolder(t)
  const log = join(folder, 'log')
  writeFileSync(log, '')
  const unfinished = join(path, 'objects/pack/tmp_pack_unfinished')
  const older = join(path, 'objects/pack/tmp_pack_older')
  writeFileSync(older, '')
  utimesSync(older, new Date(0), Date.now() / 1000 - 60)
  replaceGit(
    t,
    `case "$*" in *gc*) sleep 1000 & echo $! >> ${log}; : > ${unfinished}; wait; exit 1;; esac
exec "$git" "$@"`,
  )
  const started = () => readFileSync(log, 'utf8').split('\n').filter(Boolean).map(Number)
  const repository = openUnchecked(path)
  const collect = async () => {
    const collector = new GarbageCollector(1_000)
    await collector.collect(repository)
    return collector
  }
  let collector = await collect()
  // On a busy machine git may not have begun in time.
  while (started().length === 0) collector = await collect()
  const [child = 0] = started()
  await until(() => !isRunning(child))
  t.same([existsSync(unfinished), existsSync(older)], [false, true], 'others may work on what is older')
  await collector.collect(repository)
  t.equal(started().length, 1)

  const closed = new GarbageCollector(60_000)
  const collected = closed.collect(repository)
  await until(() => started().length === 2)
  await closed.close()
  await collected
  t.equal(started().length, 2)
})
