import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { publish, publishAll, publishNew, SyncedDraft, writeDurably } from '../../src/util/durable.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { recordFileCalls } from '../helpers/file-calls.ts'

t.test('what becomes visible is on disk, and its name is when the call returns', async (t) => {
  const folder = temporaryFolder(t)
  const at = (...names: string[]) => join(folder, ...names)
  for (const name of ['drafts/1/objects', 'drafts/2', 'places', 'file'])
    mkdirSync(at(name), { recursive: true })
  for (const name of ['drafts/1/HEAD', 'drafts/1/objects/pack', 'file/draft', 'file/new'])
    writeFileSync(at(name), name)
  const calls = await recordFileCalls(t, folder)

  await publish(at('file/draft'), at('file/place'))
  t.same(calls.splice(0), ['sync file/draft', 'rename file/draft file/place', 'sync file'])

  await writeDurably(at('file/place'), 'text')
  t.same(calls.splice(0), ['sync file/place.part', 'rename file/place.part file/place', 'sync file'])
  t.equal(readFileSync(at('file/place'), 'utf8'), 'text')

  await publishNew(at('file/new'), at('places/new'))
  t.same(calls.splice(0), ['sync file/new', 'link file/new places/new', 'sync places'])
  await t.rejects(publishNew(at('file/place'), at('places/new')), { code: 'EEXIST' })
  t.equal(readFileSync(at('places/new'), 'utf8'), 'file/new')
  calls.splice(0)

  const drafts = []
  for (const name of ['1', '2'])
    drafts.push({ draft: await SyncedDraft.of(at('drafts', name)), place: at('places', name) })
  t.same(
    calls.splice(0).sort(),
    ['drafts/1', 'drafts/1/HEAD', 'drafts/1/objects', 'drafts/1/objects/pack', 'drafts/2'].map(
      (name) => `sync ${name}`,
    ),
  )
  await publishAll(drafts)
  t.same(calls, ['rename drafts/1 places/1', 'rename drafts/2 places/2', 'sync places', 'sync drafts'])
  t.ok(existsSync(at('places/1/objects/pack')))
})
