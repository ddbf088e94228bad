import { test } from 'tap'
import { isBypassedBy, rulesOfRef } from '../../src/domain/ref-rules.ts'
import type { User } from '../../src/store/accounts/user-rows.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, sqlite } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { addToken } from '../helpers/records.ts'

const violation = (message: string | RegExp) => ({ name: 'Refusal', message })

for (const database of databases) {
  test(database.name, async (t) => {
    const { store } = await openTestStore(t, database)
    const { rules } = store
    const [alice, bob] = [
      await asAdministrator(store).users.create('alice'),
      await asAdministrator(store).users.create('Bob'),
    ]
    const create = (name: string) =>
      asAdministrator(store).repositories.create({
        owner: 'alice',
        name,
        visibility: 'public',
        objectFormat: 'sha1',
      })
    const repository = await create('rocket')
    const { id } = repository
    const other = await create('other')
    const set = (refPattern: string, required: string[], bypass: User[] = []) =>
      asAdministrator(store).rules.set(repository, { refPattern, required, bypass })
    const bypasses = async (repositoryId: number, branch: string, userId: number) =>
      isBypassedBy(rulesOfRef(await rules.load(repositoryId), `refs/heads/${branch}`), userId)

    t.same(await rules.load(id), [])
    t.same(await rules.requiredPatterns(id, 'refs/heads/main'), [])
    t.notOk(await bypasses(id, 'main', alice.id), 'there is nothing to bypass')

    await set('release/*', ['deploy', 'ci/*'], [bob, alice, bob])
    await set('release/2', ['ci/*', 'lint', 'lint'], [alice])
    await asAdministrator(store).rules.set(other, { refPattern: '*', required: ['other'], bypass: [] })
    t.same(await rules.load(id), [
      {
        refPattern: 'release/*',
        required: ['deploy', 'ci/*'],
        bypass: [
          { id: alice.id, name: 'alice' },
          { id: bob.id, name: 'Bob' },
        ],
      },
      { refPattern: 'release/2', required: ['ci/*', 'lint'], bypass: [{ id: alice.id, name: 'alice' }] },
    ])
    t.same(await rules.requiredPatterns(id, 'refs/heads/release/1/x'), ['deploy', 'ci/*'])
    t.same(
      await rules.requiredPatterns(id, 'refs/heads/release/2'),
      ['deploy', 'ci/*', 'lint'],
      'all rules together',
    )
    for (const name of ['release', 'Release/2', 'release-2', 'x/release/2', 'refs/heads/release/2'])
      t.same(await rules.requiredPatterns(id, `refs/heads/${name}`), [], name)
    t.same(
      [await bypasses(id, 'release/2', alice.id), await bypasses(id, 'release/2', bob.id)],
      [true, false],
      'a user must be named by every rule',
    )
    t.ok(await bypasses(id, 'release/1', bob.id))

    await set('release/*', ['e2e'])
    t.same(await rules.requiredPatterns(id, 'refs/heads/release/1'), ['e2e'], 'replaces the rule at once')
    t.notOk(await bypasses(id, 'release/1', bob.id))
    await asAdministrator(store).rules.remove(repository, 'release/2')
    t.notOk(await bypasses(id, 'release/2', alice.id))
    t.same(
      (await listEvents(store)).slice(-2).map(({ details }) => details.from),
      [
        { required: ['deploy', 'ci/*'], bypass: ['alice', 'Bob'] },
        { required: ['ci/*', 'lint'], bypass: ['alice'] },
      ],
      'events say what the rule was before',
    )
    await t.rejects(
      asAdministrator(store).rules.remove(repository, 'release/2'),
      violation(/no rule for the pattern "release\/2"/),
    )

    await asAdministrator(store).rules.remove(repository, 'release/*')
    const events = []
    for await (const lines of store.auditLog.list({ repository: 'alice/rocket' })) events.push(...lines)
    t.match(
      events.filter(({ action }) => action.startsWith('rule.')),
      [
        {
          actor: 'administrator',
          action: 'rule.set',
          details: { branches: 'release/*', required: ['deploy', 'ci/*'], bypass: ['Bob', 'alice'] },
        },
        { action: 'rule.set', details: { branches: 'release/2' } },
        { action: 'rule.set', details: { branches: 'release/*', required: ['e2e'], bypass: [] } },
        { action: 'rule.removed', details: { branches: 'release/2' } },
        { action: 'rule.removed', details: { branches: 'release/*' } },
      ],
    )

    const token = { id: (await addToken(store, alice.id)).id, name: 'CI' }
    const by = { kind: 'user', user: alice, token, address: '192.0.2.1' } as const
    const update = (name: string) => ({ ref: `refs/tags/${name}`, old: '0', new: '1' })
    const many = Array.from({ length: 10_000 }, (_, index) => update(`v${index}`))
    const reasons = { moved: many, deleted: [update('one')], none: [] }
    await rules.recordBypasses(
      { by, repositoryId: id, repositoryName: 'alice/rocket' },
      new Map(Object.entries(reasons).map(([reason, updates]) => [reason, new Set(updates)])),
    )
    const bypassed = (await listEvents(store)).filter(({ action }) => action === 'rule.bypassed')
    t.equal(bypassed.length, 201)
    t.same(bypassed.at(-1)?.details, { ...update('one'), reason: 'deleted' })
    t.same(
      bypassed.slice(0, -1).flatMap(({ details }) => details.updates),
      many,
      'fifty in an event, and all of them',
    )

    await set('b0', ['lint'], [bob])
    await asAdministrator(store).users.delete('bob')
    t.notOk(await bypasses(id, 'b0', bob.id))
    await asAdministrator(store).repositories.delete({ owner: 'alice', name: 'rocket' })
    t.same(await rules.load(id), [])
    t.equal((await rules.load(other.id)).length, 1)
  })
}

test('limits', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { rules } = store
  const bob = await asAdministrator(store).users.create('bob')
  const names = { owner: 'alice', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  const repository = await asAdministrator(store).repositories.create(names)
  const { id } = repository
  const set = (refPattern: string, required: string[], bypass: User[] = []) =>
    asAdministrator(store).rules.set(repository, { refPattern, required, bypass })
  const many = Array.from({ length: 21 }, (_, index) => `ci/${index}`)
  await set('🚀'.repeat(255), many.slice(1))
  await t.rejects(set('a'.repeat(256), ['ci']), violation(/256 characters long; at most 255/))
  await t.rejects(set('main', many), violation(/21 required patterns; at most 20/))
  await t.rejects(set('main', []), violation(/at least one/))
  await t.rejects(set('main', ['']), violation(/empty/))
  await t.rejects(set('main', ['ci/*', '*']), violation(/all required patterns contain "\*"/))
  await t.rejects(set('main', ['a\0']), violation(/U\+0000 or a lone surrogate/))
  await t.rejects(set('main', ['\ud800']), violation(/U\+0000 or a lone surrogate/))
  await t.rejects(set('refs/heads/main', ['ci']), violation(/leave out "refs\/heads\/"/))
  await t.rejects(
    set(
      'main',
      ['ci'],
      Array.from({ length: 21 }, (_, id) => ({ ...bob, id })),
    ),
    violation(/21 users/),
  )
  for (let index = 0; index < 4; index++) await set(`b${index}`, many.slice(0, 18 + index / 3))
  const total = await set('main', ['ci'])
  for (let index = total; index < 100; index++) t.equal(await set(`c${index}`, ['ci']), index + 1)
  const tooMany = violation(
    'the rules of the repository would together require 101 patterns; at most 100 are allowed. ' +
      'Remove a rule or require fewer patterns',
  )
  await t.rejects(set('another', ['ci']), tooMany)
  await t.rejects(set('main', ['ci', 'lint']), tooMany)
  t.equal(await set('main', ['lint']), 100)
  t.same(await rules.requiredPatterns(id, 'refs/heads/main'), ['lint'], 'a rule can still be replaced')

  t.comment('rules from before the maximum')
  const former = {
    repository_id: id,
    branch_pattern: 'former',
    required: JSON.stringify(many),
    created_at: 0,
  }
  await store.engine.kysely.insertInto('branch_rules').values(former).execute()
  t.same(await rules.requiredPatterns(id, 'refs/heads/former'), many)
  const keepWorking = violation(/require 122 patterns; at most 100 are allowed. The 121 that it has keep/)
  await t.rejects(set('another', ['ci']), keepWorking)
  await t.rejects(set('main', ['ci', 'lint']), keepWorking)
  t.equal(await set('main', ['ci'], [bob]), 121, 'one that adds nothing')
  t.equal(await set('former', many.slice(1, 3)), 102)
})
