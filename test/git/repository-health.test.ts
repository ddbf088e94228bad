import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { removeStaleLocks } from '../../src/git/leftovers.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openRepository } from '../../src/git/opened-repository.ts'
import { followFirstBranch } from '../../src/git/refs/default-branch.ts'
import { inspectRepository } from '../../src/git/repository.ts'
import { checkRepositoryFiles } from '../../src/git/repository-health.ts'
import { createFolderSync } from '../../src/git-http/push/folder-sync.ts'
import { git } from '../helpers/git.ts'
import { minimalEnvironment } from '../helpers/process.ts'
import { createSample, type SampleRepository } from './sample-repository.ts'

const unavailable = { name: 'RepositoryUnavailable' }

async function openWithProcess(t: Test, sample: SampleRepository) {
  const lookup = new CommitLookup()
  t.teardown(() => lookup.close())
  await lookup.has(sample, sample.commit('start'))
  return lookup
}

t.test('a repository whose folder is missing is unavailable, not empty', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  const lookup = await openWithProcess(t, sample)
  renameSync(sample.path, `${sample.path}.away`)
  await t.rejects(lookup.has(sample, commit), { ...unavailable, message: /ENOENT/ })
  await t.rejects(lookup.has(sample, '1'.repeat(40)), unavailable)
  writeFileSync(sample.path, '')
  await t.rejects(lookup.has(sample, commit), { ...unavailable, message: /ENOTDIR/ })
  rmSync(sample.path)
  renameSync(`${sample.path}.away`, sample.path)
  t.equal(await lookup.has(sample, commit), true, 'available again when the folder is back')
  t.equal(await lookup.has(sample, '1'.repeat(40)), false)
})

t.test('a folder that is removed between the question and the answer', async (t) => {
  const sample = await createSample(t)
  const lookup = await openWithProcess(t, sample)
  for (let turns = 0; turns < 5; turns += 1) {
    const asked = lookup.has(sample, '1'.repeat(40)).then(String, (error) => error.name)
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    renameSync(sample.path, `${sample.path}.away`)
    const outcome = await asked
    // After enough turns the answer arrives before the folder is removed.
    if (turns === 0) t.equal(outcome, 'RepositoryUnavailable')
    else t.ok(['false', 'RepositoryUnavailable'].includes(outcome), outcome)
    renameSync(`${sample.path}.away`, sample.path)
  }
})

t.test('a pipe instead of the list of alternates does not block the server', async (t) => {
  const { path } = await createSample(t)
  execFileSync('mkfifo', [join(path, 'objects/info/alternates')])
  await checkRepositoryFiles(path)
})

t.test('a repository whose alternates are gone is unavailable', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  const path = `${sample.path}-shared`
  git(sample.path, 'clone', '--quiet', '--bare', '--shared', '.', path)
  for (const alternate of [join(sample.path, 'objects'), `../../${basename(sample.path)}/objects`]) {
    writeFileSync(join(path, 'objects/info/alternates'), `# of a test\n${alternate}\n`)
    const lookup = new CommitLookup()
    t.teardown(() => lookup.close())
    t.equal(await lookup.has({ ...sample, path }, commit), true)
    t.equal(await lookup.has({ ...sample, path }, '1'.repeat(40)), false)
    renameSync(sample.path, `${sample.path}.away`)
    await t.rejects(lookup.has({ ...sample, path }, '2'.repeat(40)), { ...unavailable, message: /ENOENT/ })
    renameSync(`${sample.path}.away`, sample.path)
    t.equal(await lookup.has({ ...sample, path }, '2'.repeat(40)), false, 'available again')
  }
})

for (const part of ['HEAD', 'objects', 'refs']) {
  t.test(`a repository without ${part} is unavailable`, async (t) => {
    const sample = await createSample(t)
    const lookup = new CommitLookup()
    t.teardown(() => lookup.close())
    rmSync(join(sample.path, part), { recursive: true })
    await t.rejects(lookup.has(sample, '1'.repeat(40)), unavailable)
    t.equal(lookup.size, 0)
  })
}

for (const part of ['HEAD', 'objects']) {
  t.test(`a repository that loses ${part} while its process is running is unavailable`, async (t) => {
    const sample = await createSample(t)
    const lookup = await openWithProcess(t, sample)
    rmSync(join(sample.path, part), { recursive: true })
    await t.rejects(lookup.has(sample, '1'.repeat(40)), unavailable)
  })
}

t.test('a repository without a folder for packs is available', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  const lookup = await openWithProcess(t, sample)
  rmSync(join(sample.path, 'objects', 'pack'), { recursive: true })
  t.equal(await lookup.has(sample, commit), true)
  t.equal(await lookup.has(sample, '1'.repeat(40)), false)
})

t.test('the state changes with packs and folders, and unchanged files are not checked again', async (t) => {
  const sample = await createSample(t)
  const empty = await checkRepositoryFiles(sample.path)
  t.equal(await checkRepositoryFiles(sample.path), empty)
  sample.commit()
  const loose = await checkRepositoryFiles(sample.path)
  t.not(loose, empty)
  sample.commits(3)
  t.not(await checkRepositoryFiles(sample.path), loose)
})

t.test('a repository that lost the index of a pack, or what a ref leads to, is unavailable', async (t) => {
  const sample = await createSample(t)
  const [packed = ''] = sample.commits(3)
  const loose = sample.commit('loose')
  sample.git('symbolic-ref', 'refs/remotes/origin/HEAD', 'refs/remotes/origin/main')
  const lookup = await openWithProcess(t, sample)
  t.equal(await lookup.has(sample, '1'.repeat(40)), false, 'a symbolic ref may lead to no branch')
  const folder = join(sample.path, 'objects', 'pack')
  const index = join(folder, readdirSync(folder).find((name) => name.endsWith('.idx')) ?? '')
  renameSync(index, `${index}.away`)
  sample.git('update-ref', '-d', 'refs/heads/main')
  t.equal(await lookup.has(sample, packed), false, 'a push may be about to add the index')
  const { now } = Date
  const captured = t.capture(Date, 'now', () => now() + 61_000)
  await t.rejects(lookup.has(sample, packed), { ...unavailable, message: /is damaged: .*git index-pack '\// })
  const second = join(folder, 'pack-second.pack')
  writeFileSync(second, '')
  const message = /git index-pack '\S+'; .*git index-pack '\S+'$/
  await t.rejects(lookup.has(sample, packed), { ...unavailable, message }, 'every such pack is named')
  rmSync(second)
  t.equal(await lookup.has(sample, loose), true, 'what is there is found')
  renameSync(`${index}.away`, index)
  t.equal(await lookup.has(sample, packed), true)
  t.equal(await lookup.has(sample, '1'.repeat(40)), false)
  captured.restore()

  for (const content of ['', `${'2'.repeat(40)}\n`]) {
    writeFileSync(join(sample.path, 'refs', 'heads', 'lost'), content)
    t.equal(await lookup.has(sample, '1'.repeat(40)), false, 'not looked at until packs change')
    sample.commits(1)
    const message = /is damaged: bad ref refs\/heads\/lost/
    await t.rejects(lookup.has(sample, '1'.repeat(40)), { ...unavailable, message })
    await t.rejects(lookup.has(sample, '1'.repeat(40)), { ...unavailable, message }, 'until it is repaired')
    rmSync(join(sample.path, 'refs', 'heads', 'lost'))
    t.equal(await lookup.has(sample, '1'.repeat(40)), false)
  }
})

t.test('a bug does not pass for a repository that is unavailable', async (t) => {
  const sample = await createSample(t)
  sample.git('update-ref', 'refs/heads/other', sample.commit())
  const lookup = new CommitLookup()
  t.teardown(() => lookup.close())
  const path: string = JSON.parse('null')
  const opened = await openRepository(sample)
  const bug = () => {
    throw new TypeError('a bug')
  }
  const works: (() => Promise<unknown>)[] = [
    () => lookup.has({ ...sample, id: -1, path }, '1'.repeat(40)),
    () => openRepository({ path, ownerTrust: 'checked' }),
    () => openRepository({ path, ownerTrust: 'trusted' }),
    () => removeStaleLocks(path),
    () => createFolderSync()(path),
    () => followFirstBranch(opened, bug),
    () => inspectRepository(path),
  ]
  for (const work of works) await t.rejects(work(), TypeError, String(work))
})

t.test('temporary files of git need not be readable', async (t) => {
  const sample = await createSample(t)
  for (const name of ['tmp_pack_x', 'pack-x.keep']) {
    writeFileSync(join(sample.path, 'objects', 'pack', name), '', { mode: 0 })
  }
  const quarantine = join(sample.path, 'objects', 'tmp_objdir-incoming-x')
  mkdirSync(quarantine, { mode: 0 })
  t.equal(await lookUpAsUser(t, sample, '1'.repeat(40)), 'false')
  chmodSync(quarantine, 0o755)
})

t.test('a repository with files that cannot be opened is unavailable', async (t) => {
  const sample = await createSample(t)
  const pack = join(sample.path, 'objects', 'pack')
  const loose = sample.commit('loose')
  const [packed = ''] = sample.commits(3)
  const parts: [name: string, commit: string, mode: number][] = [
    [sample.path, packed, 0o755],
    [join(sample.path, 'HEAD'), '1'.repeat(40), 0o644],
    [join(sample.path, 'objects'), packed, 0o755],
    [pack, packed, 0o755],
    ...readdirSync(pack).map((name): [string, string, number] => [join(pack, name), packed, 0o444]),
    [join(sample.path, 'objects', loose.slice(0, 2)), loose, 0o755],
  ]
  t.equal(await lookUpAsUser(t, sample, packed), 'true')
  t.equal(await lookUpAsUser(t, sample, loose), 'true')
  for (const [name, commit, mode] of parts) {
    chmodSync(name, 0)
    t.match(
      await lookUpAsUser(t, sample, commit),
      /^RepositoryUnavailable: .*(EACCES|not a git repository)/,
      name,
    )
    chmodSync(name, mode)
  }
  sample.git('multi-pack-index', 'write')
  const missing = () => lookUpAsUser(t, sample, '1'.repeat(40))
  t.equal(await missing(), 'false')
  chmodSync(join(pack, 'multi-pack-index'), 0)
  t.match(await missing(), /^RepositoryUnavailable: .*EACCES/)
})

/** Looks up in a process that does not run as root, because root can open every file. */
async function lookUpAsUser(t: Test, sample: SampleRepository, sha: string): Promise<string> {
  const { id, path, objectFormat, ownerTrust } = sample
  const uid = process.getuid?.() === 0 ? 65_534 : undefined
  const program = join(import.meta.dirname, 'fixtures', 'lookup.ts')
  const argument = JSON.stringify({ repository: { id, path, objectFormat, ownerTrust }, sha, uid })
  const child = spawn(process.execPath, [program, argument], {
    env: minimalEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [outcome] = await once(child.stdout, 'data')
  child.kill('SIGKILL')
  return String(outcome).trim()
}
