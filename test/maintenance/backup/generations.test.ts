import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  databaseOf,
  listBackups,
  objectsOf,
  removeBackups,
  removeObjects,
  writeManifest,
} from '../../../src/maintenance/backup/generations.ts'
import { temporaryFolder } from '../../helpers/databases.ts'

const NAMES = ['000001-20261122T000000Z', '000002-20261123T000000Z']
const copyOf = (id: number) => ({
  id,
  name: `owner/${id}`,
  object_format: 'sha1' as const,
  created_at: 0,
  imported: null,
  problem: null,
  content: null,
})

/** Creates a folder of two backups. Each contains one repository, and a third one is in none. */
async function createBackups(t: Test) {
  const folder = temporaryFolder(t)
  for (const id of [1, 2, 3]) mkdirSync(objectsOf(folder, copyOf(id)), { recursive: true })
  for (const [index, name] of NAMES.entries()) {
    writeFileSync(databaseOf(folder, name), '')
    const database = { sha256: '', rows: {} }
    await writeManifest(folder, name, { created_at: '', database, repositories: [copyOf(index + 1)] })
  }
  const objects = () => readdirSync(join(folder, 'repositories')).sort()
  return { folder, objects }
}

t.test('objects stay while a backup cannot be read that may name them', async (t) => {
  const { folder, objects } = await createBackups(t)
  const manifest = join(folder, `${NAMES[0]}.manifest`)
  const text = readFileSync(manifest, 'utf8')
  writeFileSync(manifest, text.replace('owner/1', 'owner/x'))
  await t.rejects(removeObjects(folder), { name: 'Refusal' })
  t.same(objects(), ['1.sha1.git', '2.sha1.git', '3.sha1.git'])
  writeFileSync(manifest, text)
  await removeObjects(folder)
  t.same(objects(), ['1.sha1.git', '2.sha1.git'])
})

t.test('drafts are removed, also those of backups that are kept', async (t) => {
  const { folder } = await createBackups(t)
  const draft = join(folder, `${NAMES[1]}.manifest.part`)
  writeFileSync(draft, '')
  await removeBackups(folder, 2)
  t.notOk(existsSync(draft))
  t.same(await listBackups(folder), NAMES)
})

t.test('a backup of which only a part could be removed is not complete', async (t) => {
  const { folder } = await createBackups(t)
  const name = '000000-20261121T000000Z'
  const database = { sha256: '', rows: {} }
  await writeManifest(folder, name, { created_at: '', database, repositories: [] })
  // A folder is not removed like a file.
  mkdirSync(databaseOf(folder, name))
  await t.rejects(removeBackups(folder, 2))
  t.same(await listBackups(folder), NAMES)
})
