import t from 'tap'
import { describeDetails } from '../../src/domain/event-details.ts'

const event = {
  id: 1,
  time: '2026-01-01T00:00:00.000Z',
  actor: 'user',
  user: 'alice',
  token_id: null,
  token_name: null,
  address: null,
  action: 'push',
  object: 'acme/rocket',
} as const

t.test('a push is described by its updates, and other details by name', async (t) => {
  const update = { ref: 'refs/heads/main', old: 'a'.repeat(40), new: 'b'.repeat(40) }
  t.equal(
    describeDetails({ ...event, details: { updates: [update], more: 2 } }),
    'refs/heads/main:aaaaaaa..bbbbbbb more=2',
  )
  t.equal(
    describeDetails({ ...event, action: 'sessions.ended', details: { sessions: 2, names: ['a'] } }),
    'sessions=2 names=["a"]',
  )
})

t.test('what is no update is shown as it is stored', async (t) => {
  t.equal(describeDetails({ ...event, details: { updates: ['main', null, ['x']] } }), 'main null ["x"]')
})
