import t from 'tap'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { beginPush } from '../../../src/git-http/push/push.ts'
import { PushRecorder } from '../../../src/git-http/push/record.ts'
import { openSpool } from '../../../src/git-http/spool.ts'
import { openTestStore, sqlite, temporaryFolder } from '../../helpers/databases.ts'
import { listPushes } from '../../helpers/events.ts'
import { createCommits, git } from '../../helpers/git.ts'
import { addRepository } from '../../helpers/records.ts'
import { pushBody } from '../raw.ts'

t.test('a push whose report nobody reads is synced all the same, before it is recorded', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo', { commits: 0 })
  const { id, path } = repository
  const recorder = new PushRecorder(store.pushes, 60_000, (error) => t.error(error))
  t.teardown(() => recorder.close())
  const by = { kind: 'user', user: { id: 1, name: 'ann' }, address: '192.0.2.1' } as const
  const ref = 'refs/heads/first'
  const [tip = ''] = createCommits(path, 1, 'first')
  git(path, 'update-ref', '-d', ref)
  const none = '0'.repeat(40)
  const body = await (await openSpool(temporaryFolder(t), 1)).createFile()
  t.teardown(() => body.close())
  await body.write(pushBody([`${none} ${tip} ${ref}`], 'report-status'), 0, null, 0)
  const push = await beginPush(
    { store, recorder, onError: (error) => t.error(error) },
    { by, repositoryId: id, repositoryName: 'owner/demo' },
    {
      repository: { ...repository, permission: 'write' },
      opened: await openRepository(repository),
      authorizeAgain: async () => {},
    },
    body,
    new AbortController().signal,
  )
  if (Buffer.isBuffer(push)) return t.fail('the push was refused')
  git(path, 'update-ref', ref, tip)
  await push.end()
  t.equal(git(path, 'symbolic-ref', 'HEAD'), ref, 'HEAD follows as a part of the sync')
  t.match(await listPushes(store), [{ details: { updates: [{ ref, old: none, new: tip }] } }])
})
