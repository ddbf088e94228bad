import t from 'tap'
import { ADMINISTRATOR } from '../../src/domain/actors.ts'
import type { AuditEvent, AuditLine } from '../../src/store/audit/audit.ts'
import { readDetails } from '../../src/store/audit/event-rows.ts'
import { REPOSITORY_ACTIONS } from '../../src/store/audit/repository-events.ts'
import { groupLandings } from '../../src/web/events/landings.ts'
import { type EventReader, sentenceOf } from '../../src/web/events/sentences.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const [ZERO, ONE, TWO] = ['0'.repeat(40), `${'1'.repeat(40)}`, `${'2'.repeat(40)}`]
const issuer = 'https://id.example.org'
const size = { repositories: 3, refs: 9, bytes: 10, seconds: 1 }
const moved = { ref: 'refs/heads/main', old: ONE, new: TWO }
const rule = { required: ['ci/all', 'lint'], bypass: ['bob'] }

type Samples = {
  [Event in AuditEvent as Event['action']]: readonly [Event['details'], says: string, before?: string][]
}

/** Details of each kind, and what alice reads on her page when bob did it to her. */
const SAMPLES: Samples = {
  'user.created': [[{ password: true }, 'created the user Acme/Rocket']],
  'user.locked': [
    [{ sessions: 2 }, 'locked you and ended 2 sessions'],
    [{ sessions: 0 }, 'locked you'],
  ],
  'user.unlocked': [[{}, 'unlocked you']],
  'user.linked': [[{ issuer, sessions: 1 }, `linked you with an account at ${issuer} and ended 1 session`]],
  'user.unlinked': [[{ issuer, sessions: 0 }, `unlinked you from the account at ${issuer}`]],
  'user.deleted': [
    [{ tokens: 1, sessions: 1 }, 'deleted the user Acme/Rocket'],
    [
      { tokens: 1, sessions: 1, transferred_to: 'carol' },
      'deleted the user Acme/Rocket and gave the repositories to carol',
    ],
  ],
  'password.set': [[{ sessions: 3, tokens: 0 }, 'set a new password for you and ended 3 sessions']],
  'sign-in': [
    [{}, 'signed in from 192.0.2.1'],
    [{ issuer }, `signed in with ${issuer} from 192.0.2.1`],
  ],
  'sign-out': [[{}, 'signed out']],
  'session.ended': [[{ sessions: 1 }, 'ended 1 session of yours']],
  'token.created': [
    [{ id: 'f00d', scopes: [], expires_at: null }, 'created the token “Acme/Rocket” for you'],
    [
      { id: 'f00d', scopes: [], expires_at: null, push: false },
      'created the token “Acme/Rocket” for you, which cannot push',
    ],
  ],
  'token.revoked': [[{ id: 'f00d' }, 'revoked the token “Acme/Rocket” of yours']],
  'token.rotated': [
    [
      { id: 'f00d', expires_at: null, replaced: 'beef', replaced_expires_at: null },
      'gave the token “Acme/Rocket” of yours a new secret',
    ],
  ],
  'group.created': [[{}, 'created the group Acme/Rocket']],
  'group.deleted': [[{}, 'deleted the group Acme/Rocket']],
  'group.member': [
    [
      { user: 'alice', access: 'write', from: 'none' },
      'gave you write access to all repositories of Acme/Rocket',
      'no member',
    ],
    [
      { user: 'carol', access: 'none', from: 'read' },
      'removed carol from the group Acme/Rocket',
      'read access',
    ],
  ],
  'repository.created': [[{ visibility: 'public', object_format: 'sha1' }, 'created Acme/Rocket (public)']],
  'repository.imported': [
    [{ visibility: 'private', object_format: 'sha1', path: '/srv/x' }, 'imported Acme/Rocket (private)'],
  ],
  'repository.deleted': [[{}, 'deleted Acme/Rocket']],
  'repository.reporters': [
    [
      { pattern: 'ci/*', users: ['alice', 'ci'], from: null },
      'let only you, ci report ci/* in Acme/Rocket',
      'everyone with write access',
    ],
    [
      { pattern: ' ', users: null, from: [] },
      'let everyone with write access report “ ” in Acme/Rocket',
      'only users who were deleted',
    ],
  ],
  'repository.transferred': [[{ from: 'bob/rocket' }, 'moved bob/rocket to Acme/Rocket']],
  'repository.renamed': [[{ from: 'Acme/Old' }, 'renamed Acme/Old to Acme/Rocket']],
  'repository.name-released': [[{}, 'released the former name Acme/Rocket']],
  'repository.visibility': [
    [{ visibility: 'private', from: 'public' }, 'made Acme/Rocket private', 'public'],
  ],
  'repository.access': [
    [{ user: 'alice', access: 'write', from: 'none' }, 'gave you write access to Acme/Rocket', 'no access'],
    [
      { user: 'carol', access: 'none', from: 'admin' },
      'took the access to Acme/Rocket from carol',
      'admin access',
    ],
  ],
  'repository.default-branch': [
    [{ from: 'main', to: 'trunk' }, 'made trunk the default branch in Acme/Rocket', 'main'],
    [{ from: null, to: null }, 'left Acme/Rocket without a default branch', 'none'],
    [{ follows: true }, 'let the default branch in Acme/Rocket follow pushes that delete it'],
    [{ follows: false }, 'kept the default branch in Acme/Rocket also if a push deletes it'],
  ],
  'rule.set': [
    [
      { branches: 'release/*', ...rule, from: null },
      'required ci/all, lint on release/* in Acme/Rocket; bob may bypass it',
      'nobody required anything',
    ],
    [
      { branches: 'refs/tags/v*', required: ['ci'], bypass: [], from: rule },
      'required ci on tags v* in Acme/Rocket',
      'ci/all, lint; bob may bypass it',
    ],
    [
      { branches: 'main', required: ['1', '2', '3', '4', '5', '6', '7'], bypass: [], from: null },
      'required 1, 2, 3, 4, 5 and 2 more on main in Acme/Rocket',
      'nobody required anything',
    ],
  ],
  'rule.removed': [
    [
      { branches: 'main', from: rule },
      'removed the rule for main in Acme/Rocket',
      'ci/all, lint; bob may bypass it',
    ],
  ],
  'rule.bypassed': [
    [
      { ...moved, reason: 'ci/all has failed' },
      'bypassed the rule for main in Acme/Rocket: ci/all has failed',
    ],
    [
      { updates: [moved, { ...moved, ref: 'refs/tags/v1' }], reason: 'not reported' },
      'bypassed the rule for main, the tag v1 in Acme/Rocket: not reported',
    ],
  ],
  'status.deleted': [
    [{ sha: ONE, context: 'ci/all' }, 'deleted the status ci/all of 1111111 in Acme/Rocket'],
  ],
  'status.requested': [
    [{ sha: ONE, context: 'ci/all' }, 'asked for a new run of ci/all on 1111111 in Acme/Rocket'],
  ],
  push: [
    [{ updates: [moved] }, 'pushed main from 1111111 to 2222222 in Acme/Rocket'],
    [{ updates: [{ ...moved, old: ZERO }] }, 'created main at 2222222 in Acme/Rocket'],
    [{ updates: [{ ...moved, new: ZERO, ref: 'refs/tags/v1' }] }, 'deleted the tag v1 in Acme/Rocket'],
    [
      { updates: [moved, { ...moved, ref: 'refs/heads/a', old: ZERO }, { ...moved, new: ZERO }], more: 4 },
      'pushed main (1111111, 2222222), a (new, 2222222), main (deleted) and 4 more in Acme/Rocket',
    ],
    [
      { updates: [], unknown: [moved], interrupted: true, unchecked: ['main'] },
      'pushed in Acme/Rocket; whether it moved main is unknown; the server did not see its end; the rule for main was set too late to decide about it',
    ],
  ],
  'address.blocked': [
    [
      { failures: 30, window: 300, after: 'password' },
      'failed to sign in 30 times from Acme/Rocket, which was blocked for 300 seconds',
    ],
  ],
  'address.lifted': [[{}, 'lifted the block of Acme/Rocket']],
  'sign-in.refused': [
    [{ issuer, reason: 'claim' }, `signed in at ${issuer} from 192.0.2.1, but may not sign in here`],
  ],
  'backup.completed': [[size, 'backed up 3 repositories']],
  'backup.incomplete': [[{ problems: ['acme/x'] }, 'could not back up everything: 1 problem']],
  'backup.restored': [
    [{ created_at: '2026-01-01T00:00:00Z', locked: 0 }, 'restored the backup of 2026-01-01T00:00:00Z'],
  ],
  'statuses.pruned': [
    [{ before: '2026-01-01T00:00:00Z', commits: 1, statuses: 2 }, 'removed 2 statuses of 1 commit'],
  ],
  'audit.began': [[{}, 'began a new audit log']],
  'audit.pruned': [[{ before: '2026-01-01T00:00:00Z' }, 'removed events before 2026-01-01T00:00:00Z']],
}

/** An event that bob did to alice. */
const line: AuditLine = {
  id: 1,
  time: '2026-01-01T00:00:00.000Z',
  actor: 'user',
  user: 'bob',
  subject: 'alice',
  token_id: null,
  token_name: null,
  address: '192.0.2.1',
  action: 'push',
  object: 'Acme/Rocket',
  details: {},
}

/** Returns the text of an event's sentence, and of what was before. */
function read(event: Partial<AuditLine>, reader: EventReader = { user: 'alice' }) {
  const { sentence, before } = sentenceOf({ ...line, ...event }, reader)
  const [says, was] = [sentence, before].map((html) =>
    html
      ?.toString()
      .replace(/<bdi class="blank"[^>]*>( +)<\/bdi>/g, '“$1”')
      .replace(/<[^>]*>/g, ''),
  )
  return { says, before: was }
}

/** Returns details as they are read from the database. */
function stored(details: object): AuditLine['details'] {
  return readDetails(JSON.stringify(details)) ?? {}
}

t.test('each kind of event is a sentence', async (t) => {
  for (const [action, samples] of Object.entries(SAMPLES))
    for (const [details, says, before] of samples)
      t.same(
        read({ action, details: stored(details) }),
        { says: `bob ${says}`, before },
        `${action} ${JSON.stringify(details)}`,
      )
  t.same(
    [...REPOSITORY_ACTIONS].sort(),
    Object.keys(SAMPLES)
      .filter((action) => /^(push$|rule\.|status\.|repository\.)/.test(action))
      .filter((action) => !['repository.name-released', 'repository.deleted'].includes(action))
      .sort(),
    'a page of a repository can be filtered by each kind that it can have',
  )
})

t.test('a sentence says who did it, and what the reader knows anyway is left out', async (t) => {
  const visibility = { action: 'repository.visibility', details: { visibility: 'private', from: 'public' } }
  const here = { user: 'alice', repository: 'acme/ROCKET' }
  for (const [event, says] of [
    [{ actor: 'administrator', user: 'alice' }, 'An administrator made the repository private'],
    [{ actor: 'anonymous', user: null }, 'Someone who was not signed in made the repository private'],
    [{ user: 'alice' }, 'You made the repository private'],
    [{ user: 'alice', token_name: 'CI' }, 'You, with the token “CI”, made the repository private'],
    [{ object: 'acme/old' }, 'bob made acme/old private'],
  ] as const)
    t.equal(read({ ...visibility, ...event }, here).says, says)
  const own = { user: 'alice', object: 'CI' }
  t.equal(read({ ...own, action: 'token.revoked' }).says, 'You revoked the token “CI”')
  t.equal(read({ ...own, action: 'session.ended', details: { sessions: 2 } }).says, 'You ended 2 sessions')
  t.equal(read({ ...own, action: 'password.set', details: { sessions: 0 } }).says, 'You set a new password')
  t.equal(read({ ...own, action: 'user.created' }).says, 'You signed in for the first time')
})

t.test('an event of another version is a sentence as well', async (t) => {
  t.equal(read({ action: 'group.archived', object: 'acme' }).says, 'bob did group.archived to acme')
  t.equal(
    read({ action: 'push', details: { omitted: '40000 characters' } }).says,
    'bob did push to Acme/Rocket',
  )
  for (const action of Object.keys(SAMPLES))
    for (const value of [undefined, null, 1, 'text', ['a', null, {}], { required: 1, bypass: {} }]) {
      const names = ['from', 'to', 'users', 'user', 'updates', 'unknown', 'required', 'bypass', 'sha', 'more']
      const details = value === undefined ? {} : Object.fromEntries(names.map((name) => [name, value]))
      t.match(read({ action, details }).says, /^bob [a-z]/, `${action} ${JSON.stringify(value)}`)
    }
})

t.test('the events of a landing are one row, and those of others are not', async (t) => {
  const ticket = (digits: string, branch = 'main') => `refs/landing/${branch}/20260101T000000000Z-${digits}`
  const topic = (digits: string, branch = 'main') => `refs/heads/land/${branch}/${digits}`
  const [mine, other] = ['a'.repeat(12), 'b'.repeat(12)]
  const created = (ref: string) => ({ ref, old: ZERO, new: ONE })
  const renewed = (ref: string) => ({ ref, old: ONE, new: TWO })
  const deleted = (ref: string) => ({ ref, old: TWO, new: ZERO })
  const push = (id: number, user: string, ...updates: object[]) => ({
    ...line,
    id,
    user,
    details: stored({ updates }),
  })
  const end = push(9, 'bob', moved, deleted(topic(mine)), deleted(ticket(mine)))
  const events = [
    push(10, 'carol', moved),
    end,
    push(8, 'carol', created(ticket(mine))),
    push(7, 'bob', renewed(ticket(mine))),
    push(6, 'carol', created(topic(other))),
    push(5, 'bob', created(topic(mine))),
    push(4, 'bob', created(ticket(other))),
    push(3, 'bob', created(ticket(mine)), moved),
    push(2, 'bob', created(ticket(mine))),
    { ...push(1, 'bob', created(ticket(mine))), object: 'Acme/Other' },
  ]
  t.same(
    groupLandings(events).map(({ event, earlier }) => [event.id, ...earlier.map(({ id }) => id)]),
    [[10], [9, 7, 5, 2], [8], [6], [4], [3], [1]],
    'those of its user in its repository about nothing else',
  )
  t.equal(
    read({ details: end.details }, { repository: line.object }).says,
    'bob landed on main, which moved from 1111111 to 2222222',
  )
  for (const updates of [
    [moved],
    [created('refs/heads/main'), deleted(topic(mine))],
    [moved, deleted(topic(mine)), deleted(ticket(other))],
    [moved, deleted(topic(mine, 'next'))],
    [moved, { ...moved, ref: 'refs/heads/next' }, deleted(topic(mine))],
    [deleted('refs/heads/main'), deleted(topic(mine))],
    [moved, deleted(topic('x'.repeat(12)))],
    [moved, deleted('refs/heads/land/main/x/aaaaaaaaaaaa')],
  ])
    t.match(read({ details: stored({ updates }) }).says, /^bob (pushed|deleted) /)
  t.match(read({ details: stored({ ...end.details, more: 3 }) }).says, /^bob pushed /)
})

t.test('the events of a repository are filtered by kind and user', async (t) => {
  const server = await startServer(t)
  const alice = { id: await createAccount(server, 'alice'), name: 'alice' }
  const bob = { id: await createAccount(server, 'bob'), name: 'bob' }
  const { id } = await server.createRepository('alice/rocket')
  const repository = { id, name: 'alice/rocket' }
  const by = { kind: 'user', user: bob, token: { id: 'f00d', name: 'CI' }, address: '192.0.2.1' } as const
  await server.store.audit.transaction(ADMINISTRATOR, async (change) => {
    const rule = { required: ['ci/all'], bypass: ['alice'], from: null }
    await change.record({ action: 'rule.set', repository, details: { ...rule, branches: 'release/*' } })
    const access = { user: 'bob', access: 'write', from: 'none' }
    await change.record({ action: 'repository.access', repository, subject: bob, details: access })
    for (let count = 0; count < 150; count++)
      await change.recordOf(by, { action: 'push', repository, details: { updates: [moved] } })
    await change.recordOf(
      { ...by, user: alice, address: '192.0.2.2' },
      { action: 'push', repository, details: { updates: [] } },
    )
  })
  const client = openPageClient(server.url)
  await client.signIn('alice')
  const page = '/alice/rocket/settings/events'
  const rows = (body: string) =>
    [...body.matchAll(/<th scope="row">(.*?)\s*<details>/gs)].map(([, text = '']) =>
      text.replace(/<[^>]*>/g, ''),
    )

  const { body: all } = await client.get(page)
  t.equal(rows(all).length, 100)
  t.same(rows(all).slice(0, 2), [
    'You, with the token “CI”, pushed.',
    'bob pushed main from 1111111 to 2222222.',
  ])
  t.match(all, '192.0.2.2')
  t.notMatch(all, '192.0.2.1', 'without the addresses of others')
  const { body: rules } = await client.get(`${page}?kind=rule.set`)
  t.same(rows(rules), [
    'An administrator required ci/all on release/*; you may bypass it. Before: nobody required anything.',
  ])
  t.match(rules, /<option value="rule.set" selected>/)
  t.match(rules, 'required=[&quot;ci/all&quot;]', 'with the details')

  const seen: string[] = []
  let next: string | undefined = `${page}?kind=push&user=BOB`
  for (let pages = 0; next !== undefined && pages < 3; pages++) {
    const { status, body } = await client.get(next)
    t.equal(status, 200)
    seen.push(...rows(body))
    next = /<a href="([^"]*)#events">Older events/.exec(body)?.[1]?.replaceAll('&amp;', '&')
  }
  t.same([seen.length, new Set(seen).size], [150, 1], 'all pages have the same filter')
  const { body: ofBob } = await client.get(`${page}?user=bob`)
  const [, older = ''] = /<a href="([^"]*)#events">Older events/.exec(ofBob) ?? []
  t.match(
    rows((await client.get(older.replaceAll('&amp;', '&'))).body).at(-1),
    /^An administrator gave bob write access to the repository/,
    'those about the user too',
  )

  const none = await client.get(`${page}?kind=rule.removed&user=nobody`)
  t.equal(none.status, 200)
  t.match(none.body, 'There are no events of the kind “Rules removed” by or about “<bdi>nobody</bdi>”.')
  const wrong = await client.get(`${page}?kind=%3Cb%3E&user=bob`)
  t.equal(wrong.status, 422)
  t.match(wrong.body, 'There is no kind of events “<bdi>&lt;b&gt;</bdi>”.')
  t.match(wrong.body, 'name="user" type="search" value="bob"', 'the form keeps the rest')
  const noName = await client.get(`${page}?user=a%20b`)
  t.equal(noName.status, 422)
  t.match(noName.body, 'No user can have the name “<bdi>a b</bdi>”.')
})
