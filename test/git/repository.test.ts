import { execFileSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import { NotARepository } from '../../src/git/errors.ts'
import { checkGit } from '../../src/git/git-version.ts'
import { openUnchecked } from '../../src/git/opened-repository.ts'
import { createBareRepository, inspectRepository } from '../../src/git/repository.ts'
import { checkRepositoryFiles } from '../../src/git/repository-health.ts'
import { writeTips } from '../../src/git/transfer.ts'
import { recordFileCalls } from '../helpers/file-calls.ts'
import { git, replaceGit } from '../helpers/git.ts'
import { createSample, temporaryFolder } from './sample-repository.ts'

for (const objectFormat of ['sha1', 'sha256'] as const) {
  t.test(`creates a bare ${objectFormat} repository`, async (t) => {
    const path = join(temporaryFolder(t), 'parent', '-odd name')
    await createBareRepository(path, objectFormat)
    t.equal(git(path, 'symbolic-ref', 'HEAD'), 'refs/heads/main')
    t.equal(git(path, 'rev-parse', '--is-bare-repository'), 'true')
    t.notOk(existsSync(join(path, 'hooks')), 'without hooks')
    t.same(await inspectRepository(path), { path, objectFormat })
  })
}

t.test('does not overwrite an existing folder', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'file'), '')
  await t.rejects(createBareRepository(folder, 'sha1'), { code: 'EEXIST' })
  t.same(readdirSync(folder), ['file'])
})

t.test('leaves no files behind if git fails', async (t) => {
  const path = join(temporaryFolder(t), 'repository.git')
  const before = process.env.PATH
  process.env.PATH = '/nowhere'
  t.teardown(() => {
    process.env.PATH = before
  })
  await t.rejects(createBareRepository(path, 'sha1'), { name: 'GitFailed', message: /ENOENT/ })
  t.notOk(existsSync(path))
})

t.test('finds the git directory of a checkout', async (t) => {
  const folder = temporaryFolder(t)
  const checkout = join(folder, 'line\nbreak')
  git(folder, 'init', '--quiet', checkout)
  git(checkout, 'commit', '--quiet', '--allow-empty', '-m', 'first')
  const expected = { path: join(checkout, '.git'), objectFormat: 'sha1' }
  t.same(await inspectRepository(join(checkout, '.git')), expected)
  t.same(await inspectRepository(checkout), expected, 'from its root')
  t.same(await inspectRepository(relative(process.cwd(), checkout)), expected, 'from a relative path')

  symlinkSync(checkout, join(folder, 'link'))
  t.same(await inspectRepository(join(folder, 'link', '.git')), expected, 'through a symbolic link')

  git(checkout, 'worktree', 'add', '--quiet', join(folder, 'linked'))
  t.same(await inspectRepository(join(folder, 'linked')), expected, 'from a linked worktree')

  mkdirSync(join(checkout, 'below'))
  await t.rejects(inspectRepository(join(checkout, 'below')), NotARepository, 'not from a folder below')

  git(checkout, 'config', 'core.worktree', '../../gone')
  t.same(await inspectRepository(join(checkout, '.git')), expected, 'whose work tree is gone')
})

t.test('a pipe in place of a file is an error at once', async (t) => {
  const pack = `objects/pack/pack-${'1'.repeat(40)}.idx`
  for (const name of ['HEAD', 'config', 'commondir', 'packed-refs', 'refs/heads/topic', 'objects', pack]) {
    const { path } = await createSample(t)
    rmSync(join(path, name), { recursive: true, force: true })
    execFileSync('mkfifo', ['-m', '0777', join(path, name)])
    const startedAt = performance.now()
    const message = `${join(path, name)} is a pipe`
    await t.rejects(inspectRepository(path), { name: 'NotARepository', message }, name)
    t.ok(performance.now() - startedAt < 30_000)
    if (['HEAD', 'config', 'packed-refs', pack].includes(name))
      await t.rejects(checkRepositoryFiles(path), { name: 'RepositoryUnavailable', message }, name)
  }
})

t.test('inspects a repository of another owner', async (t) => {
  const { path } = await createSample(t)
  if (process.getuid?.() === 0) chownSync(path, 12345, 12345)
  t.same(await inspectRepository(path), { path, objectFormat: 'sha1' })
})

t.test('a git version that cannot sync to disk is refused', async (t) => {
  for (const version of ['1.9.1', '2.4.0', '2.35.9', '2.35.0.windows.1']) {
    replaceGit(t, `echo "git version ${version}"`)
    await t.rejects(checkGit(), { message: `git ${version} is too old` }, version)
  }
  for (const version of ['2.36.0', '2.36.0-rc1', '2.100.1', '3.0.0', '2.39.5 (Apple Git-154)', 'unknown']) {
    replaceGit(t, `echo "git version ${version}"`)
    await t.resolves(checkGit(), version)
  }
})

t.test('the error says why a path is not a repository', async (t) => {
  const folder = temporaryFolder(t)
  const { path } = await createSample(t)
  await t.rejects(inspectRepository(folder), {
    name: 'NotARepository',
    message: /not a git repository: '.*'/,
  })
  await t.rejects(inspectRepository(join(folder, 'gone')), { name: 'NotARepository', message: /ENOENT/ })
  writeFileSync(join(folder, 'file'), '')
  await t.rejects(inspectRepository(join(folder, 'file')), NotARepository)

  renameSync(join(path, 'objects', 'pack'), join(folder, 'pack'))
  t.same(await inspectRepository(path), { path, objectFormat: 'sha1' }, 'git needs no folder for packs')
  writeFileSync(join(path, 'objects', 'pack'), '')
  await t.rejects(inspectRepository(path), { name: 'NotARepository', message: /ENOTDIR/ })
  rmSync(join(path, 'HEAD'))
  await t.rejects(inspectRepository(path), NotARepository)
})

t.test('objects are on disk before the refs by which a fetch knows them', async (t) => {
  const sample = await createSample(t)
  const calls = await recordFileCalls(t, sample.path)
  await writeTips(openUnchecked(sample.path), [sample.commit()])
  t.same(calls.slice(0, 3), [
    'sync objects/pack',
    'sync packed-refs.part',
    'rename packed-refs.part packed-refs',
  ])
})
