import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { sqlite } from '../../helpers/databases.ts'
import { listEvents } from '../../helpers/events.ts'
import { startServer } from '../../helpers/server.ts'
import { basic, commit, createCheckout, git, tryGit } from '../client.ts'
import { beginRpc } from '../raw.ts'

const NONE = '0'.repeat(40)

async function setUp(t: Test) {
  const server = await startServer(t, { database: sqlite })
  await server.createRepository('Owner/Demo', { commits: 0 })
  const token = await server.createToken('owner')
  const url = `${server.url}/owner/demo.git`
  const options = { authorization: basic('x', token) }
  const checkout = await createCheckout(t, url)
  const tip = () => git(checkout, ['rev-parse', 'HEAD'])
  const push = (...args: string[]) => tryGit(checkout, ['push', '--quiet', 'origin', ...args], options)
  const pushes = async () => {
    const events = await listEvents(server.store, { repository: 'owner/demo' })
    return events.filter(({ action }) => action === 'push')
  }
  return { server, url, authorization: options.authorization, checkout, tip, push, pushes }
}

function packet(text: string): string {
  return (text.length + 4).toString(16).padStart(4, '0') + text
}

t.test('a push is one event with the updates that git made', async (t) => {
  const { server, checkout, tip, push, pushes } = await setUp(t)
  const first = await tip()
  await push('HEAD:main', 'HEAD:refs/heads/über')
  const [event] = await pushes()
  t.match(event, {
    actor: 'user',
    user: 'owner',
    token_name: 'test',
    address: '127.0.0.1',
    object: 'Owner/Demo',
    details: {
      updates: [
        { ref: 'refs/heads/main', old: NONE, new: first },
        { ref: 'refs/heads/über', old: NONE, new: first },
      ],
    },
  })

  const second = await commit(checkout)
  await push('HEAD:main', ':refs/heads/über')
  t.same((await pushes())[1]?.details, {
    updates: [
      { ref: 'refs/heads/main', old: first, new: second },
      { ref: 'refs/heads/über', old: first, new: NONE },
    ],
  })

  await git(checkout, ['reset', '--quiet', '--soft', first])
  const other = await commit(checkout)
  await git(`${server.dataDir}/repositories/1.git`, ['config', 'receive.denyNonFastForwards', 'true'])
  t.equal((await push('+HEAD:main', 'HEAD:topic')).code, 1, 'one of two updates is refused')
  t.same((await pushes())[2]?.details, { updates: [{ ref: 'refs/heads/topic', old: NONE, new: other }] })
  t.equal((await push('+HEAD:main')).code, 1)
  await push('HEAD:topic')
  t.equal((await pushes()).length, 3, 'a push that updates nothing is no event')
})

t.test('an event names fifty updates and counts the others', async (t) => {
  const { push, pushes, tip } = await setUp(t)
  const refs = Array.from({ length: 60 }, (_, index) => `HEAD:refs/tags/v${index}`)
  t.equal((await push(...refs)).code, 0)
  const [event] = await pushes()
  t.match(event?.details, { more: 10 })
  t.same(Object.keys(event?.details ?? {}), ['updates', 'more'])
  t.match(JSON.stringify(event?.details), await tip())
})

t.test('a client that asks for no report, or does not wait for it, leaves an event', async (t) => {
  const { url, authorization, tip, push, pushes } = await setUp(t)
  await push('HEAD:main', 'HEAD:one', 'HEAD:two')
  const id = await tip()
  const deletion = (name: string, capabilities: string) =>
    `${packet(`${id} ${NONE} refs/heads/${name}\0${capabilities}`)}0000`

  const silent = beginRpc(url, 'git-receive-pack', authorization)
  silent.request.end(deletion('one', 'delete-refs'))
  t.equal((await silent.answer).status, 200)
  const updates = [{ ref: 'refs/heads/one', old: id, new: NONE }]
  t.same((await pushes())[1]?.details, { updates, unreported: true })

  const pack = Buffer.from('PACK\0\0\0\x02\0\0\0\0')
  const command = Buffer.from(`${packet(`${NONE} ${id} refs/heads/\xfc\0object-format=sha1`)}0000`, 'latin1')
  const bytes = beginRpc(url, 'git-receive-pack', authorization)
  bytes.request.end(Buffer.concat([command, pack, createHash('sha1').update(pack).digest()]))
  t.equal((await bytes.answer).status, 200)
  t.match((await pushes())[2]?.details, { updates: [{ ref: 'refs/heads/\ufffd', new: id }] }, 'not UTF-8')

  // Refused, because the ref has another value.
  const wrong = beginRpc(url, 'git-receive-pack', authorization)
  wrong.request.end(`${packet(`${'1'.repeat(40)} ${NONE} refs/heads/main\0delete-refs`)}0000`)
  t.equal((await wrong.answer).status, 200)
  t.equal((await pushes()).length, 3)

  const gone = beginRpc(url, 'git-receive-pack', authorization)
  gone.answer.catch(() => {})
  const text = deletion('two', 'report-status')
  gone.request.setHeader('content-length', text.length)
  gone.request.write(text, () => gone.request.destroy())
  for (let tries = 0; (await pushes()).length < 4 && tries < 100; tries++) await setTimeout(100)
  const refs = await git(process.cwd(), ['ls-remote', url, 'refs/heads/two'])
  if (refs === '') t.match((await pushes())[3]?.details, { updates: [{ ref: 'refs/heads/two' }] })
  else t.equal((await pushes()).length, 3, 'git was stopped before it updated the ref')
})
