import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { createFolderSync } from '../../../src/git-http/push/folder-sync.ts'
import { createSample } from '../../git/sample-repository.ts'
import { recordFileCalls } from '../../helpers/file-calls.ts'
import { minimalEnvironment } from '../../helpers/process.ts'

const syncFolders = createFolderSync()

/** Syncs in a process that does not run as root, because root can open every folder. */
async function syncAsUser(t: Test, path: string): Promise<string> {
  const program = join(import.meta.dirname, 'fixtures', 'sync-folders.ts')
  const uid = process.getuid?.() === 0 ? 65_534 : undefined
  const child = spawn(process.execPath, [program, JSON.stringify({ path, uid })], {
    env: minimalEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [outcome] = await once(child.stdout, 'data')
  child.kill('SIGKILL')
  return String(outcome).trim()
}

t.test('every folder in which git names objects or refs is synced', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  sample.commits(2)
  sample.git('config', 'core.logAllRefUpdates', 'true')
  sample.git('update-ref', 'refs/heads/group/topic', commit)
  mkdirSync(join(sample.path, 'objects', 'tmp_objdir-incoming-x'))
  mkdirSync(join(sample.path, 'other'))
  t.equal(await syncAsUser(t, sample.path), 'synced')

  const folders = readdirSync(sample.path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/tmp_|other/.test(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name))
  t.ok(folders.length > 12)
  // A folder that cannot be opened cannot be synced. A failure proves that the folder is synced.
  for (const folder of [sample.path, ...folders]) {
    chmodSync(folder, 0o311)
    t.match(
      await syncAsUser(t, sample.path),
      `RepositoryUnavailable: the repository ${sample.path} cannot`,
      folder,
    )
    chmodSync(folder, 0o755)
  }
})

t.test('a missing repository is an error, a folder removed meanwhile is not', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  for (let round = 0; round < 20; round++) {
    sample.git('update-ref', 'refs/heads/group/topic', commit)
    const synced = syncFolders(sample.path)
    if (round % 2 === 0) await new Promise((resolve) => setImmediate(resolve))
    sample.git('update-ref', '-d', 'refs/heads/group/topic')
    await synced
  }
  renameSync(sample.path, join(dirname(sample.path), 'away'))
  await t.rejects(syncFolders(sample.path), { name: 'RepositoryUnavailable', message: /ENOENT/ })
})

t.test('a folder is synced until a later change must differ in its time, and then once', async (t) => {
  const sample = await createSample(t)
  const calls = await recordFileCalls(t, sample.path)
  const syncs = async () => {
    calls.length = 0
    await syncFolders(sample.path)
    return calls.filter((call) => call === 'sync refs/heads').length
  }
  const { ctimeMs } = statSync(join(sample.path, 'refs/heads'))
  let age = 1_000
  t.capture(Date, 'now', () => Math.ceil(ctimeMs) + age)
  t.same([await syncs(), await syncs()], [1, 1], 'another push may come in the same tick of the clock')
  age = 3_000
  t.same([await syncs(), await syncs()], [1, 0])
})
