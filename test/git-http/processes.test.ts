import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { createCommits, git } from '../helpers/git.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic } from './client.ts'
import { beginRpc, packet, pushBody } from './raw.ts'

const NONE = '0'.repeat(40)
const FETCH = `${packet('command=fetch')}0001${packet('no-progress')}`

t.test('fetches and pushes start few processes, also the first push of a server', async (t) => {
  let started = 0
  const count = () => {
    started++
  }
  subscribe('child_process', count)
  t.teardown(() => unsubscribe('child_process', count))
  const server = await startServer(t)
  const { store } = server
  const { path, commits } = await server.createRepository('owner/demo')
  const [tip = ''] = commits
  const { id } = await store.repositories.get('owner', 'demo')
  const authorization = basic('x', await server.createToken('owner'))
  const url = `${server.url}/owner/demo.git`
  const startedBy = async (work: () => Promise<void>) => {
    started = 0
    await work()
    return started
  }
  const refs = async (service: string, headers = {}) => {
    const answer = await fetch(`${url}/info/refs?service=${service}`, { headers })
    t.equal(answer.status, 200)
    await answer.text()
  }
  const rpc = async (service: string, body: string | Buffer, headers = {}) => {
    const { request, answer } = beginRpc(url, service, authorization, headers)
    request.end(body)
    const { status, body: answered } = await answer
    t.equal(status, 200)
    return answered.toString('latin1')
  }
  const push = async (...updates: string[]) => {
    await refs('git-receive-pack', { authorization })
    const answer = await rpc('git-receive-pack', pushBody(updates, 'report-status'))
    t.equal(answer.match(/ok refs/g)?.length, updates.length, answer)
  }
  const version2 = { 'git-protocol': 'version=2' }

  // The list of refs before the first push, and the lock of the server's files, for which no push waits.
  await refs('git-receive-pack', { authorization })
  await until(() => started > 1)

  t.equal(await startedBy(() => push(`${NONE} ${tip} refs/heads/first`)), 2)
  t.equal(await startedBy(() => push(`${tip} ${NONE} refs/heads/first`)), 2)
  const clone = async () => {
    await refs('git-upload-pack', version2)
    t.match(await rpc('git-upload-pack', `${packet('command=ls-refs')}0000`, version2), tip)
    const wanted = `${FETCH}${packet(`want ${tip}`)}${packet('done')}0000`
    t.match(await rpc('git-upload-pack', wanted, version2), /PACK/)
  }
  t.equal(await startedBy(clone), 3)
  const probe = async () => {
    for (const service of ['git-upload-pack', 'git-receive-pack']) await rpc(service, '0000')
  }
  t.equal(await startedBy(probe), 0)

  const rule = { refPattern: 'ruled/*', required: ['ci'], bypass: [] }
  await asAdministrator(store).rules.set({ owner: 'owner', name: 'demo', id }, rule)
  const next = createCommits(path, 1, 'elsewhere')[0] ?? ''
  for (const sha of [tip, next]) await addReport({ store, repositoryId: id, sha }, 'ci', 'success')
  const branches = Array.from({ length: 50 }, (_, index) => `refs/heads/ruled/${index}`)
  t.equal(await startedBy(() => push(`${NONE} ${tip} refs/heads/ruled/first`)), 3)
  t.equal(await startedBy(() => push(...branches.map((ref) => `${NONE} ${tip} ${ref}`))), 3)
  // From here on, so many refs have files of their own that git lists those that are symbolic.

  await asAdministrator(store).rules.set(
    { owner: 'owner', name: 'demo', id },
    { ...rule, refPattern: 'refs/tags/v*' },
  )
  const identity = ['-c', 'user.name=x', '-c', 'user.email=x']
  const tags = [tip, next].map((sha, index) => {
    git(path, ...identity, 'tag', '--message=x', `t${index}`, sha)
    return git(path, 'rev-parse', `t${index}`)
  })
  const tag = (name: string, index: number) => `${NONE} ${tags[index % 2]} refs/tags/${name}${index}`
  const many = Array.from({ length: 100 }, (_, index) => index)
  t.equal(await startedBy(() => push(tag('v', 0))), 4, 'an annotated tag')
  t.equal(await startedBy(() => push(...many.map((index) => tag('v1/', index)))), 4, 'many of them')
  const withBranch = [`${NONE} ${tip} refs/heads/ruled/x`, tag('v2/', 0), tag('v2/', 1)]
  t.equal(await startedBy(() => push(...withBranch)), 5, 'and a branch')
})
