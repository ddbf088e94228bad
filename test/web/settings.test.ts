import { rmSync } from 'node:fs'
import t, { type Test } from 'tap'
import { removeDeletedRepositories } from '../../src/repositories/delete.ts'
import { invitation as inviteBy } from '../../src/web/forms/permission-forms.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, sqlite } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { git } from '../helpers/git.ts'
import { createAccount, csrfOf, openPageClient } from '../helpers/page-client.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

async function setUp(t: Test, options: Parameters<typeof startServer>[1] = {}) {
  const server = await startServer(t, options)
  const signIn = async (name: string) => {
    await createAccount(server, name)
    const client = openPageClient(server.url)
    await client.signIn(name)
    return client
  }
  const [alice, bob] = [await signIn('alice'), await signIn('bob')]
  return { server, alice, bob, anonymous: openPageClient(server.url), signIn }
}

/** Follows a redirect, and returns the message of the page. */
async function messageOf(client: ReturnType<typeof openPageClient>, path: string | null) {
  const { body } = await client.get(path ?? '')
  return /role="status"><bdi>([^<]*)/.exec(body)?.[1]
}

function withoutCsrf(body: string): string {
  return body.replaceAll(/name="csrf"\s+value="[^"]*"/g, '')
}

for (const database of databases) {
  t.test(`${database.name}: a team creates and manages a repository in the browser`, async (t) => {
    const { server, alice, bob } = await setUp(t, { database })
    const { store } = server
    const create = (client: typeof alice, form: Record<string, string>) =>
      client.submit('/settings/repositories/new', '/settings/repositories/new', {
        visibility: 'private',
        'object-format': 'sha256',
        ...form,
      })
    t.match((await alice.get('/')).body, 'href="/settings/repositories/new"')
    const created = await create(alice, { owner: 'alice', name: 'rocket' })
    t.equal(created.status, 303)
    t.equal(created.headers.get('location'), '/alice/rocket')
    const message = 'Created alice/rocket, which is private.'
    await alice.poll('/alice/rocket')
    t.equal(await messageOf(alice, '/alice/rocket'), message, 'an open page has not taken it')
    t.equal(await messageOf(alice, '/alice/rocket'), undefined, 'once')
    t.match(await store.repositories.get('alice', 'rocket'), {
      visibility: 'private',
      objectFormat: 'sha256',
      managed: true,
    })
    for (const [form, problem] of [
      [{ owner: 'alice', name: 'Rocket' }, 'There is already a repository alice/Rocket.'],
      [{ owner: 'alice', name: 'a b"<' }, '&quot;a b&quot;&lt;&quot; is not a valid repository name'],
      [{ owner: 'bob', name: 'rocket' }, undefined],
      [{ owner: 'nobody', name: 'rocket' }, undefined],
    ] as const) {
      const { status, body } = await create(alice, form)
      t.equal(status, problem ? 422 : 403, form.name)
      if (problem) t.match(body, problem)
      if (problem) t.match(body, 'aria-invalid="true"')
    }
    t.equal((await store.repositories.list()).length, 1, 'and leave nothing behind')

    await asAdministrator(store).groups.create('acme')
    await asAdministrator(store).members.set('acme', (await store.users.get('alice')).id, 'admin')
    const settings = '/alice/rocket/settings'
    const change = (client: typeof alice, form: Record<string, string>, page = settings) =>
      client.submit(page, page, form)
    t.match((await alice.get('/alice/rocket')).body, `href="${settings}"`)
    const shown = await change(alice, { change: 'visibility', visibility: 'public' })
    t.equal(await messageOf(alice, shown.headers.get('location')), 'alice/rocket is public now.')
    const branch = await change(alice, { change: 'branch', branch: 'trunk' })
    t.equal(
      await messageOf(alice, branch.headers.get('location')),
      'trunk is the default branch of alice/rocket now.',
    )
    t.equal((await change(alice, { change: 'branch', branch: 'a..b' })).status, 422)
    const isChecked = async () => /name="follow" value="yes" checked/.test((await alice.get(settings)).body)
    t.notOk(await isChecked())
    const follow = await change(alice, { change: 'follow', follow: 'yes', from: 'false' })
    t.equal(
      await messageOf(alice, follow.headers.get('location')),
      'The default branch follows a push that deletes it now.',
    )
    t.ok(await isChecked())
    const outdated = await change(alice, { change: 'follow', from: 'false' })
    t.match(outdated, { status: 422, body: /Whether HEAD follows pushes is &quot;true&quot; by now/ })
    t.equal((await change(alice, { change: 'follow', follow: 'yes', from: 'true' })).status, 303)
    await change(alice, { change: 'follow', from: 'true' })
    t.notOk(await isChecked())
    const followed = (await listEvents(store)).flatMap(({ user, details }) =>
      'follows' in details ? [[user, details.follows]] : [],
    )
    t.same(followed, [
      ['alice', true],
      ['alice', false],
    ])
    t.equal((await change(alice, { change: 'nothing' })).status, 422)
    t.equal((await change(alice, { change: 'delete', confirm: 'rocket' })).status, 422)

    const access = `${settings}/access`
    const give = (form: Record<string, string>) => change(alice, { from: 'none', ...form }, access)
    const unknown = await give({ user: 'carol', access: 'write' })
    t.equal(unknown.status, 422)
    t.match(unknown.body, 'There is no user &quot;carol&quot;.')
    t.match(unknown.body, 'value="carol"', 'what was typed stays')
    t.equal((await bob.get(settings)).status, 403)
    t.notMatch((await bob.get('/alice/rocket')).body, `href="${settings}"`)
    const given = await give({ user: 'bob', access: 'write' })
    t.equal(await messageOf(alice, given.headers.get('location')), 'bob may write to alice/rocket now.')
    const late = await give({ user: 'bob', access: 'read' })
    t.equal(late.status, 422)
    t.match(late.body, 'The access of bob is &quot;write&quot; by now')
    await give({ user: 'bob', access: 'admin', from: 'write' })
    t.equal((await bob.get(access)).status, 200)
    const left = await change(bob, { user: 'bob', access: 'none', from: 'admin' }, access)
    t.equal(await messageOf(bob, left.headers.get('location')), 'bob was removed from alice/rocket.')
    t.equal((await bob.get(access)).status, 403)

    const moved = await change(alice, { change: 'name', owner: 'acme', name: 'moon' })
    t.equal(moved.headers.get('location'), '/acme/moon/settings', 'also by a form of version 0.3.0')
    t.equal((await alice.get('/alice/rocket')).status, 404, 'the name before')
    t.match(await store.reservedNames.list('alice'), [{ name: 'alice/rocket', repository: 'acme/moon' }])
    t.equal((await create(alice, { owner: 'alice', name: 'rocket' })).status, 422, 'and is reserved')
    const events: unknown[] = []
    for await (const lines of store.auditLog.list({ repository: 'acme/moon' }))
      events.push(...lines.map(({ action, user }) => [action, user]))
    t.same(events, [['repository.transferred', 'alice']])
    const { path } = await store.repositories.get('acme', 'moon')
    const deleted = await change(alice, { change: 'delete', confirm: 'acme/moon' }, '/acme/moon/settings')
    t.equal(deleted.status, 303, 'also by a form of version 0.3.0')
    t.equal(await messageOf(alice, deleted.headers.get('location')), 'acme/moon was deleted.')
    t.same(await store.repositories.list(), [])
    t.equal((await store.repositories.listDeleted()).length, 1, 'it waits for nothing that is left')
    await removeDeletedRepositories(store)
    t.throws(() => process.chdir(path), { code: 'ENOENT' }, 'with its files')
  })
}

t.test('settings are for admins who have signed in, and no token', async (t) => {
  const { server, alice, bob, anonymous } = await setUp(t)
  await server.createRepository('alice/open')
  await server.createRepository('alice/closed', { private: true })
  await asAdministrator(server.store).collaborators.set(
    { owner: 'alice', name: 'open' },
    (await server.store.users.get('bob')).id,
    'write',
  )
  const authorization = `Bearer ${await server.createToken('alice')}`
  for (const page of ['', '/access', '/checks', '/events']) {
    const [open, closed] = ['open', 'closed'].map((name) => `/alice/${name}/settings${page}`)
    t.equal((await alice.get(open ?? '')).status, 200)
    for (const path of [open ?? '', closed ?? '']) {
      const { status, headers } = await anonymous.get(path, { headers: { authorization } })
      t.equal(status, 303)
      t.equal(headers.get('location'), `/login?next=${encodeURIComponent(path)}`)
    }
    t.equal((await bob.get(open ?? '')).status, 403)
    t.equal((await bob.get(closed ?? '')).status, 404)
    t.equal((await bob.get(`/alice/missing/settings${page}`)).status, 404)

    if (page === '/events') continue
    const form = { change: 'visibility', visibility: 'private', user: 'bob', access: 'admin', from: 'write' }
    const send = (client: typeof alice, csrf: string) =>
      client.send('POST', open ?? '', { form: { ...form, csrf }, headers: { authorization } })
    t.equal((await send(alice, 'x')).status, 403, 'a forged form')
    t.equal((await send(anonymous, 'x')).status, 403)
    t.equal((await bob.submit('/settings/tokens', open ?? '', form)).status, 403)
    t.equal((await bob.submit('/settings/tokens', closed ?? '', form)).status, 404)
  }
  t.equal((await server.store.repositories.get('alice', 'open')).visibility, 'public')
})

t.test('the page does not offer that HEAD of an imported repository follows pushes', async (t) => {
  const { server, alice } = await setUp(t)
  const { path } = await server.createRepository('alice/rocket')
  const imported = { owner: 'alice', name: 'moon', visibility: 'public', objectFormat: 'sha1', path } as const
  await asAdministrator(server.store).repositories.create(imported)
  t.match((await alice.get('/alice/rocket/settings')).body, 'name="follow"')
  t.notMatch((await alice.get('/alice/moon/settings')).body, 'name="follow"')
  const page = '/alice/moon/settings'
  const sent = await alice.submit(page, page, { change: 'follow', follow: 'yes', from: 'false' })
  t.match(sent, { status: 422, body: /Alice\/moon was imported: its HEAD is for the owner/i })
})

t.test('rules of tags have a group and a preview of their own, and old ones can be removed', async (t) => {
  const { server, alice } = await setUp(t)
  const { id: repositoryId, path, commits } = await server.createRepository('alice/tagged', { commits: 2 })
  const { store } = server
  const [first = '', second = ''] = commits
  await addReport({ store, repositoryId, sha: first }, 'ci')
  for (const [name, sha] of [
    ['v1', first],
    ['v2', second],
    ['V3', second],
  ] as const)
    git(path, '-c', 'user.name=x', '-c', 'user.email=x', 'tag', '-m', 'x', name, sha)
  git(path, 'branch', 'refs/tags/v9', first)
  const page = '/alice/tagged/settings/checks'
  const send = (branch: string, change: string, seen = 'null') =>
    alice.submit(page, page, { branch, context: 'ci', required: '', bypass: '', seen, change })

  const { status, body } = await send('refs/tags/v*', 'preview')
  t.equal(status, 200)
  const preview = /<section aria-labelledby="preview">.*?<\/section>/s.exec(body)?.[0] ?? ''
  t.match(preview, 'What the newest tags that match would have got')
  t.equal(preview.match(/class="commit"/g)?.length, 2, 'neither V3 nor a branch')
  t.match(preview, /accepted<\/span>\s+<span class="subject"><bdi>v1<\/bdi>/)
  t.match(preview, /refused<\/span>\s+<span class="subject"><bdi>v2<\/bdi><\/span>.*ci has not reported/s)
  t.match((await send('refs/tags/w*', 'preview')).body, /There are no tags that match.*no tag matches yet/s)
  t.match(await send('refs/tags/v/', 'preview'), {
    status: 422,
    body: /branch-error">Pattern .*name of a tag may not end/,
  })
  t.match(await send(' main', 'set'), { status: 422, body: /did you mean &quot;main&quot;\?/ })

  const saved = await send('refs/tags/w*', 'set')
  t.equal(
    await messageOf(alice, saved.headers.get('location')),
    'Saved the rule for refs/tags/w* (no tag matches yet).',
  )
  for (const refPattern of ['main', 'refs/tags/v*'])
    await asAdministrator(store).rules.set(
      { id: repositoryId, owner: 'alice', name: 'tagged' },
      { refPattern, required: ['ci'], bypass: [] },
    )
  // As a version before 0.4.0 stored it.
  await store.engine.kysely
    .insertInto('branch_rules')
    .values({ repository_id: repositoryId, branch_pattern: ' main', required: '["ci"]', created_at: 1 })
    .execute()
  const groups = (await alice.get(page)).body.match(/role="group" aria-label="\w+">.*?<\/table>/gs) ?? []
  t.equal(groups.length, 2)
  t.match(groups[0], /aria-label="Branches".*<bdi> main<\/bdi>.*never matches.*<bdi>main<\/bdi>/s)
  t.notMatch(groups[0], 'refs/tags/')
  t.match(groups[1], /aria-label="Tags".*refs\/tags\/v\*.*refs\/tags\/w\*/s)
  const overview = (await alice.get('/alice/tagged')).body
  t.match(
    overview,
    /A push to these branches.*<dt><bdi>main<\/bdi>.*These tags are created on commits.*<dt><bdi>refs\/tags\/v\*/s,
  )
  for (const path of [`/alice/tagged/commits/${second}`, '/alice/tagged?ref=refs/tags/v2'])
    t.match(
      (await alice.get(path)).body,
      /<bdi>refs\/tags\/v2<\/bdi>: not deployable<\/strong>.*1 not reported<.*<bdi>ci</s,
      `${path} says what the tag lacks`,
    )

  const removed = await send(' main', 'remove', JSON.stringify({ required: ['ci'], bypass: [] }))
  t.equal(await messageOf(alice, removed.headers.get('location')), 'Removed the rule for  main.')
  t.same(
    (await store.rules.load(repositoryId)).map(({ refPattern }) => refPattern),
    ['main', 'refs/tags/v*', 'refs/tags/w*'],
  )
})

t.test('required checks are chosen from those that reported, previewed and saved', async (t) => {
  const { server, alice } = await setUp(t)
  const { id: repositoryId, commits } = await server.createRepository('alice/rocket', { commits: 2 })
  const { store } = server
  for (const [index, state] of (['success', 'failure'] as const).entries())
    await store.statuses.report({
      repositoryId,
      sha: commits[index] ?? '',
      context: 'ci/"<build>',
      state,
      description: null,
      target_url: null,
    })
  const page = '/alice/rocket/settings/checks'
  const { body: empty } = await alice.get(page)
  t.match(empty, 'There are no rules')
  t.notMatch(empty, 'would have got', 'a preview is shown only on request')
  t.match(empty, 'name="context" value="ci/&quot;&lt;build&gt;"')
  const send = (form: Record<string, string>, path = page) =>
    alice.submit(path, page, { seen: 'null', ...form })
  const rule = { branch: 'main', context: 'ci/"<build>', required: 'lint/*\n\n', bypass: 'bob\n' }

  const preview = await send({ ...rule, change: 'preview' })
  t.equal(preview.status, 200)
  t.equal(preview.body.match(/class="badge failure">refused/g)?.length, 2, 'lint/* has not reported')
  t.match(preview.body, 'Nothing is saved yet.')
  t.match(preview.body, /<bdi>main<\/bdi> will have no passed commit until/)
  const met = (await send({ ...rule, required: '', change: 'preview' })).body
  t.match(met, 'class="badge success">accepted')
  t.match(
    met,
    new RegExp(`The last passed commit of <bdi>main</bdi> will be\\s+<a href="[^"]*/commits/${commits[0]}">`),
  )
  const refused = await send({ ...rule, context: '', change: 'preview' })
  t.equal(refused.status, 422, 'no exact name')
  t.notMatch(refused.body, 'would have got')
  t.same(await store.rules.load(repositoryId), [])

  const saved = await send({ ...rule, change: 'set' })
  t.equal(await messageOf(alice, saved.headers.get('location')), 'Saved the rule for main.')
  const bob = await store.users.get('bob')
  const stored = {
    refPattern: 'main',
    required: ['ci/"<build>', 'lint/*'],
    bypass: [{ id: bob.id, name: 'bob' }],
  }
  t.same(await store.rules.load(repositoryId), [stored])
  const late = await send({ ...rule, change: 'set' })
  t.equal(late.status, 422, 'another rule than the form began with')
  t.match(late.body, 'The rule is another one by now')
  for (const [fields, problem] of [
    [{ branch: 'a*b', context: '', required: 'lint/*' }, 'all required patterns contain'],
    [{ branch: 'refs/heads/main' }, 'id="branch-error">Pattern'],
    [{ branch: 'release', bypass: 'nobody' }, 'id="bypass-error">There is no user &quot;nobody&quot;'],
  ] as const) {
    const { status, body } = await send({ ...rule, ...fields, change: 'set' })
    t.equal(status, 422, problem)
    t.match(body.toLowerCase(), problem.toLowerCase())
  }
  t.same(await store.rules.load(repositoryId), [stored], 'and leave nothing behind')

  const topic = { ...rule, branch: 'top*', required: '', change: 'preview' }
  const { body: ofMain } = await send(topic)
  t.match(ofMain, 'What the newest commits of <bdi>main</bdi> would have got', 'no branch matches')
  t.match(ofMain, 'class="badge success">accepted', 'nor does the rule for main')
  const { path } = await store.repositories.get('alice', 'rocket')
  git(path, 'branch', 'topic', 'main')
  const { body: ofTopic } = await send(topic)
  t.match(ofTopic, 'What the newest commits of <bdi>topic</bdi> would have got')
  t.match(ofTopic, 'class="badge success">accepted')
  const { body: ofBoth } = await send({ ...topic, branch: 'mai*' })
  t.match(ofBoth, 'What the newest commits of <bdi>main</bdi> would have got')
  t.notMatch(ofBoth, 'class="badge success">accepted', 'the rule for main requires more')

  const { body } = await alice.get(`${page}?rule=main`)
  const seen =
    /name="seen" value="([^"]*)"/.exec(body)?.[1]?.replaceAll('&quot;', '"').replaceAll('&lt;', '<') ?? ''
  t.match(body, 'value="main" required autocomplete="off" spellcheck="false" readonly')
  await asAdministrator(store).rules.set(
    { id: repositoryId, owner: 'alice', name: 'rocket' },
    { ...stored, bypass: [] },
  )
  t.equal(
    (await send({ ...rule, seen: seen.replaceAll('&gt;', '>'), change: 'remove' })).status,
    422,
    'changed meanwhile',
  )
  const current = JSON.stringify({ required: stored.required, bypass: [] })
  const removed = await send({ ...rule, seen: current, change: 'remove' })
  t.equal(await messageOf(alice, removed.headers.get('location')), 'Removed the rule for main.')

  await asAdministrator(store).repositories.rename(
    { owner: 'alice', name: 'rocket' },
    { owner: 'alice', name: 'moon' },
  )
  const events = await alice.get('/alice/moon/settings/events')
  const actions = [...events.body.matchAll(/<code>([\w.-]*)<\/code> <bdi>/g)].map(([, action]) => action)
  t.same(actions, ['repository.renamed', 'rule.removed', 'rule.set', 'rule.set', 'repository.created'])
  t.match(events.body, /<th scope="row">You required .*127\.0\.0\.1/s)
  t.match(
    events.body,
    '<th scope="row">An administrator renamed <bdi>alice/rocket</bdi> to <bdi>alice/moon</bdi>.',
  )
})

t.test('members of a group see each other, and its admins change them', async (t) => {
  const { server, alice, bob, anonymous, signIn } = await setUp(t)
  const carol = await signIn('carol')
  const { store } = server
  await asAdministrator(store).groups.create('acme')
  const [admin, member] = [await store.users.get('alice'), await store.users.get('bob')]
  await asAdministrator(store).members.set('acme', admin.id, 'admin')
  const form = '/settings/owners/acme/members'
  const change = (client: typeof alice, fields: Record<string, string>, page = '/acme') =>
    client.submit(page, form, { from: 'none', ...fields })
  const isLikeMissing = async (message: string) => {
    for (const client of [bob, anonymous]) {
      const [there, missing] = [await client.get('/acme'), await client.get('/none')]
      t.equal(there.status, client === bob ? 404 : 303, message)
      t.same(there.status, missing.status)
      t.equal(withoutCsrf(there.body).replaceAll('acme', 'none'), withoutCsrf(missing.body))
    }
    t.equal((await change(bob, { user: 'bob', access: 'admin' }, '/settings/tokens')).status, 404)
  }
  await isLikeMissing('without repositories')
  const empty = await alice.get('/acme')
  t.match(empty.body, 'There are no repositories of acme yet.')
  t.match(empty.body, 'href="/settings/repositories/new?owner=acme"')
  const [invitation = '', link = ''] =
    /Who is new here[^<]*<[\s\S]*?id="invite">([^<]*)</.exec(empty.body) ?? []
  t.match(invitation, /^Who is new here gets a password from an administrator, and signs in with this link:</)
  t.equal(link, `${server.url}/login?next=%2Facme`)
  t.match((await anonymous.get(link.slice(server.url.length))).body, 'name="next" value="/acme"')
  t.match(
    String(inviteBy(link, true)),
    /Who is new here signs in once with this link, and can be added then:[\s\S]*>http:[^<]*</,
    'with single sign-on',
  )
  const added = await change(alice, { user: 'BOB', access: 'read' })
  t.equal(await messageOf(alice, added.headers.get('location')), 'bob may read all repositories of acme now.')
  const seen = await bob.get('/acme')
  t.match(seen.body, '<h2 id="members">Members</h2>')
  t.notMatch(seen.body, 'Who is new here')
  t.notMatch(seen.body, 'Add a member')
  t.notMatch(seen.body, 'repositories/new')
  t.equal((await change(bob, { user: 'bob', access: 'admin', from: 'read' }, '/settings/tokens')).status, 403)
  const authorization = `Bearer ${await server.createToken('alice')}`
  const fields = { user: 'bob', access: 'admin', from: 'read', csrf: 'x' }
  t.equal((await alice.send('POST', form, { form: fields, headers: { authorization } })).status, 403)
  t.equal((await anonymous.send('POST', form, { form: fields, headers: { authorization } })).status, 303)

  for (const [fields, problem] of [
    [{ user: '"<carl>', access: 'write' }, 'There is no user &quot;&quot;&lt;carl&gt;&quot;'],
    [{ user: 'carol', access: 'owner' }, 'Choose what is allowed.'],
    [{ user: 'bob', access: 'write' }, 'The access of bob is &quot;read&quot; by now'],
    [{ user: 'alice', access: 'none', from: 'admin' }, 'Nobody could administer acme then'],
  ] as const) {
    const { status, body } = await change(alice, fields)
    t.equal(status, 422, problem)
    t.match(body, problem)
    t.match(body, `value="${fields.user.replace('"', '&quot;').replace('<', '&lt;').replace('>', '&gt;')}"`)
  }
  t.match(await store.members.list('acme'), [
    { user: 'alice', permission: 'admin' },
    { user: 'bob', permission: 'read' },
  ])

  await server.createRepository('acme/secret', { private: true, commits: 0 })
  await server.createRepository('acme/open', { commits: 0 })
  const { body } = await carol.get('/acme')
  t.match(body, 'href="/acme/open"')
  t.notMatch(body, 'secret')
  t.notMatch(body, 'Members', 'those who are no members do not see them')
  t.match((await bob.get('/acme')).body, 'href="/acme/secret"')
  const { headers } = await alice.poll('/acme')
  t.equal((await alice.poll('/acme', headers.get('etag'))).status, 304, 'forms are not kept current')

  await asAdministrator(store).repositories.rename(
    { owner: 'acme', name: 'open' },
    { owner: 'acme', name: 'shut' },
  )
  t.match((await alice.get('/acme')).body, 'name="name" value="open"')
  t.notMatch((await bob.get('/acme')).body, 'name="name" value="open"')
  const release = (client: typeof alice) =>
    client.submit('/settings/tokens', '/settings/owners/acme/names', { name: 'open' })
  t.equal((await release(bob)).status, 403)
  const released = await release(alice)
  t.equal(await messageOf(alice, released.headers.get('location')), 'acme/open is not reserved any more.')
  t.same(await store.reservedNames.list(), [])
  const again = await release(alice)
  t.equal(await messageOf(alice, again.headers.get('location')), 'The name is not reserved.')

  await change(alice, { user: 'bob', access: 'admin', from: 'read' })
  const left = await change(alice, { user: 'alice', access: 'none', from: 'admin' })
  t.equal(left.headers.get('location'), '/')
  t.equal((await change(alice, { user: 'alice', access: 'admin' }, '/settings/tokens')).status, 403)
  t.match(await store.members.list('acme'), [{ user: member.name, permission: 'admin' }])
  t.match((await alice.get('/alice')).body, 'There are no repositories of alice yet.')
  t.notMatch((await alice.get('/alice')).body, 'Members', 'a user has none')
})

t.test('the page of a repository leads to a token for it', async (t) => {
  const { server, alice, bob } = await setUp(t)
  const { id, commits } = await server.createRepository('alice/rocket', { commits: 2 })
  // More than the form lists, which are the newest.
  const { kysely } = server.store.engine
  const row = kysely.selectFrom('repositories').selectAll().where('id', '=', id)
  const { id: _, ...values } = await row.executeTakeFirstOrThrow()
  const names = Array.from({ length: 500 }, (_, index) => `p${index}`)
  const rows = names.map((name) => ({ ...values, name, name_key: name }))
  await kysely.insertInto('repositories').values(rows).execute()
  const { id: other } = await server.createRepository('alice/other', { commits: 0 })
  const context = 'ci/"<build>'
  const status = { state: 'success', description: null, target_url: null } as const
  await server.store.statuses.report({ repositoryId: id, sha: commits[0] ?? '', context, ...status })
  const page = '/settings/tokens?repository=alice/rocket'
  t.match((await alice.get('/alice/rocket')).body, `href="${page}#new"`)
  t.notMatch((await bob.get('/alice/rocket')).body, page)
  const { body } = await alice.get(page)
  t.match(body, 'name="context" value="ci/&quot;&lt;build&gt;"')
  t.match(body, `name="repository" value="${id}" checked`)
  t.match(body, `name="repository" value="${other}" >`)
  t.equal(
    withoutCsrf((await bob.get(page)).body),
    withoutCsrf((await bob.get('/settings/tokens?repository=alice/missing')).body),
    'who may not write gets the usual form',
  )

  const send = (name: string) => {
    const fields = { name, scope: 'repo', repository: String(id), context, contexts: 'lint/*', expiry: '30' }
    return alice.submit(page, page, fields)
  }
  const refused = await send('')
  t.equal(refused.status, 422)
  t.match(refused.body, 'name="context" value="ci/&quot;&lt;build&gt;" checked')
  t.match(refused.body, `name="repository" value="${id}" checked`)
  t.match(refused.body, 'lint/*</textarea>')
  t.equal((await send('CI')).status, 200)
  t.match(await server.store.tokens.list((await server.store.users.get('alice')).id), [
    { name: 'CI', repositories: ['alice/rocket'], contexts: [context, 'lint/*'], push: false },
  ])
})

t.test('names of users cannot be guessed one after the other', async (t) => {
  const { server, alice, signIn } = await setUp(t)
  await server.createRepository('alice/rocket')
  const page = '/alice/rocket/settings/access'
  const give = (client: typeof alice, path: string, user: string) =>
    client.submit(path, path, { user, access: 'read', from: 'none' })
  for (let index = 0; index < 30; index++) await give(alice, page, `user${index}`)
  const { status, body } = await give(alice, page, 'bob')
  t.equal(status, 422)
  t.match(body, 'You have sent many names that no user has; try again in an hour.')
  t.equal(await server.store.failures.find('127.0.0.1'), null, 'the budget of the address is another')
  const carol = await signIn('carol')
  await server.createRepository('carol/moon')
  t.equal((await give(carol, '/carol/moon/settings/access', 'bob')).status, 303, 'as is that of others')
})

for (const database of databases) {
  t.test(`${database.name}: nor many of them at the same time`, async (t) => {
    const { server, alice } = await setUp(t, { database })
    await server.createRepository('alice/rocket')
    const page = '/alice/rocket/settings/access'
    const csrf = csrfOf((await alice.get(page)).body)
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        alice.send('POST', page, { form: { csrf, user: `user${index}`, access: 'read', from: 'none' } }),
      ),
    )
    const told = answers.filter(({ body }) => body.includes('There is no user')).length
    // A busy database may answer some with 503.
    t.ok(told > 0 && told <= 30, `${told} are told`)
  })
}

t.test('events of another repository that had the name are not shown', async (t) => {
  const { server, bob } = await setUp(t)
  const { store } = server
  const { id } = await store.users.get('bob')
  const [plain, secret] = [
    { owner: 'acme', name: 'plain' },
    { owner: 'acme', name: 'secret' },
  ]
  await server.createRepository('acme/plain', { commits: 0 })
  await server.createRepository('acme/secret', { commits: 0 })
  await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'secret' }, id, 'read')
  await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'secret' })
  await asAdministrator(store).repositories.rename(plain, secret)
  await asAdministrator(store).repositories.rename(secret, { owner: 'bob', name: 'plain' })
  await asAdministrator(store).reservedNames.release(plain)
  await server.createRepository('acme/plain', { commits: 0 })
  const { body } = await bob.get('/bob/plain/settings/events')
  const rows = [...body.matchAll(/<code>([\w.-]*)<\/code> <bdi>([^<]*)/g)]
  t.same(
    rows.map(([, action, object]) => [action, object]),
    [
      ['repository.transferred', 'bob/plain'],
      ['repository.renamed', 'acme/secret'],
      ['repository.created', 'acme/plain'],
    ],
  )
})

t.test('what another admin has set meanwhile is not undone', async (t) => {
  const { server, alice } = await setUp(t)
  await server.createRepository('alice/rocket')
  const page = '/alice/rocket/settings'
  const { body } = await alice.get(page)
  await asAdministrator(server.store).repositories.setVisibility(
    { owner: 'alice', name: 'rocket' },
    'private',
  )
  const [visibility = '', branch = ''] = [...body.matchAll(/name="from" value="([^"]*)"/g)].map(
    ([, from]) => from,
  )
  t.same([visibility, branch], ['public', 'main'])
  const form = { csrf: csrfOf(body), change: 'visibility', visibility: 'public', from: visibility }
  const late = await alice.send('POST', page, { form })
  t.equal(late.status, 422)
  t.match(
    late.body,
    'The visibility is &quot;private&quot; by now, which somebody else has set. Nothing was changed.',
  )
  t.equal((await server.store.repositories.get('alice', 'rocket')).visibility, 'private')
  await alice.submit(page, page, { change: 'visibility', visibility: 'public', from: 'private' })
  const { path, visibility: set } = await server.store.repositories.get('alice', 'rocket')
  t.equal(set, 'public')

  git(path, 'branch', 'next', 'main')
  git(path, 'symbolic-ref', 'HEAD', 'refs/heads/next')
  const lateBranch = await alice.submit(page, page, { change: 'branch', branch: 'main', from: branch })
  t.equal(lateBranch.status, 422)
  t.match(lateBranch.body, 'The default branch is &quot;next&quot; by now')
  t.equal(git(path, 'symbolic-ref', '--short', 'HEAD'), 'next')
  const again = await alice.submit(page, page, { change: 'branch', branch: 'main', from: 'next' })
  t.equal(again.status, 303)
})

t.test('a form that was open meanwhile says what changed, and keeps what was typed', async (t) => {
  const { server, alice, bob } = await setUp(t)
  const { store } = server
  const write = asAdministrator(store)
  const { id } = await server.createRepository('alice/rocket')
  const rocket = { owner: 'alice', name: 'rocket' }
  const page = '/alice/rocket/settings'
  const bobId = (await store.users.get('bob')).id
  const csrf = csrfOf((await alice.get(page)).body)
  const send = (end: string, form: Record<string, string>) =>
    alice.send('POST', `${page}${end}`, { form: { csrf, ...form } })
  const fieldOf = (body: string, name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(body)?.[1]

  // Another admin has set a rule: the second attempt replaces it knowingly.
  const rule = { branch: 'main', required: 'ci/mine', bypass: 'bob', change: 'set' }
  await write.rules.set({ id, ...rocket }, { refPattern: 'main', required: ['ci/theirs'], bypass: [] })
  const refused = await send('/checks', { ...rule, seen: 'null' })
  t.equal(refused.status, 422)
  t.match(
    refused.body,
    'by now, which somebody else has set. Nothing was changed. It requires ci/theirs now;',
  )
  t.match(refused.body, />\s*ci\/mine<\/textarea>/)
  t.match((await store.rules.load(id))[0]?.required, ['ci/theirs'])
  const seen = fieldOf(refused.body, 'seen')?.replaceAll('&quot;', '"') ?? ''
  t.equal((await send('/checks', { ...rule, seen })).status, 303)
  t.match((await store.rules.load(id))[0]?.required, ['ci/mine'])
  await write.rules.remove({ id, ...rocket }, 'main')
  const removed = await send('/checks', { ...rule, seen })
  t.match(removed.body, 'There is no such rule now; saving again creates it.')

  // Another admin has changed the same access: the choice stays in its row.
  await write.collaborators.set(rocket, bobId, 'read')
  const late = await send('/access', { user: 'bob', access: 'none', from: 'write' })
  t.equal(late.status, 422)
  t.match(late.body, /aria-describedby="access-error"[^>]*>.*<option value="none" selected>/s)
  t.match(late.body, 'id="access-error">The access of bob is &quot;read&quot; by now')
  t.notMatch(late.body, 'id="user-error"')
  await write.collaborators.set(rocket, bobId, null)
  const gone = await send('/access', { user: 'bob', access: 'write', from: 'read' })
  t.match(gone.body, 'id="user-error">The access of bob is')

  // Another repository has the name.
  await write.repositories.rename(rocket, { owner: 'alice', name: 'missile' })
  const renamed = await send('/checks', { ...rule, seen: 'null' })
  t.equal(renamed.status, 404)
  t.match(renamed.body, 'alice/rocket is called alice/missile by now. Nothing was changed.')
  t.match(renamed.body, '<a href="/alice/missile">')
  t.match(renamed.body, /<dt>Other required checks<\/dt><dd><div[^>]*>ci\/mine/, 'what was typed')
  const reserved = await send('/checks', { pattern: 'ci/*', users: 'bob', seen: 'null', change: 'reserve' })
  t.match(
    reserved.body,
    /<dt>Contexts<\/dt><dd><div[^>]*>ci\/\*.*<dt>Users who may report them<\/dt><dd><div[^>]*>bob/s,
  )
  const stranger = await bob.submit('/settings/tokens', `${page}/checks`, rule)
  t.equal(stranger.status, 404)
  t.match(stranger.body, 'The repository is called alice/missile now', 'whoever may read it is told')
  t.notMatch(stranger.body, 'Nothing was changed', 'the rest is for its admins')
  await write.reservedNames.release(rocket)
  const { id: other } = await server.createRepository('alice/rocket', { commits: 0 })
  for (const form of [
    { change: 'delete', confirm: 'alice/rocket' },
    { change: 'name', owner: 'alice', name: 'moon' },
  ]) {
    const { status, body } = await send('', { ...form, from: String(id) })
    t.equal(status, 422)
    t.match(body, 'The name alice/rocket belongs to another repository by now. Nothing was changed.')
    t.match(body, `value="${form.confirm ?? form.name}"`)
  }
  t.equal((await store.repositories.get('alice', 'rocket')).id, other)

  // Who is no admin any more.
  await server.createRepository('carol/moon')
  const moon = { owner: 'carol', name: 'moon' }
  await write.collaborators.set(moon, bobId, 'admin')
  const form = '/carol/moon/settings/access'
  const open = csrfOf((await bob.get(form)).body)
  await write.collaborators.set(moon, bobId, 'read')
  const demoted = await bob.send('POST', form, {
    form: { csrf: open, user: 'alice', access: 'read', from: 'none' },
  })
  t.equal(demoted.status, 403)
  t.match(demoted.body, /<dt>User<\/dt><dd><div[^>]*>alice/)
  const secret = { current: 'hunter2-secret', password: 'x', again: 'x' }
  const password = await bob.send('POST', form, { form: { csrf: open, user: 'alice', ...secret } })
  t.notMatch(password.body, 'hunter2')
})

for (const database of databases) {
  t.test(`${database.name}: no field takes what is no text of its kind`, async (t) => {
    const { server, alice } = await setUp(t, { database })
    const { store } = server
    const { commits } = await server.createRepository('alice/rocket')
    await asAdministrator(store).groups.create('acme')
    await asAdministrator(store).members.set('acme', (await store.users.get('alice')).id, 'admin')
    const settings = '/alice/rocket/settings'
    const forms: [path: string, form: Record<string, string>][] = [
      [
        '/settings/repositories/new',
        { owner: 'alice', name: 'x', visibility: 'public', 'object-format': 'sha1' },
      ],
      [settings, { change: 'visibility', visibility: 'public', from: 'private' }],
      [settings, { change: 'branch', branch: 'main', from: 'next' }],
      [settings, { change: 'name', owner: 'nobody', name: 'x' }],
      [settings, { change: 'follow', follow: 'yes', from: 'true' }],
      [settings, { change: 'delete', confirm: '' }],
      [`${settings}/access`, { user: 'nobody', access: 'read', from: 'none' }],
      [
        `${settings}/checks`,
        { branch: 'x', context: 'ci', required: '', bypass: '', seen: 'x', change: 'set' },
      ],
      [
        `${settings}/checks`,
        { branch: 'x', context: 'ci', required: '', bypass: '', seen: 'x', change: 'preview' },
      ],
      [`${settings}/checks`, { branch: 'x', seen: 'x', change: 'remove' }],
      [`${settings}/checks`, { pattern: 'x', users: 'nobody', seen: 'x', change: 'reserve' }],
      [`${settings}/checks`, { pattern: 'x', seen: 'x', change: 'open' }],
      [`/alice/rocket/commits/${commits[0]}`, { status: 'x' }],
      [
        '/settings/tokens',
        { name: '', repository: '1', context: 'ci', contexts: 'x', expiry: 'date', date: 'x' },
      ],
      ['/settings/owners/acme/members', { user: 'nobody', access: 'read', from: 'none' }],
      ['/settings/owners/acme/names', { name: 'x' }],
    ]
    // A database may refuse a zero byte and half of a character. The rest does not depend on it.
    const ofDatabase = ['a\0b', '\ud800']
    const others = [
      '',
      '"><script>',
      "' or 1=1 --",
      '../..',
      '\r\nset-cookie: a=b',
      '__proto__',
      '*',
      'x'.repeat(5_000),
    ]
    const values = database === sqlite ? [...ofDatabase, ...others] : ofDatabase
    const csrf = csrfOf((await alice.get('/settings/tokens')).body)
    for (const [path, form] of forms)
      for (const field of Object.keys(form))
        for (const value of values) {
          const { status, body, headers } = await alice.send('POST', path, {
            form: { ...form, csrf, [field]: value },
          })
          const what = `${path} ${form.change ?? ''} ${field} ${JSON.stringify(value.slice(0, 20))}`
          if (![303, 403, 404, 422, 200].includes(status)) t.fail(`${what}: ${status}`)
          if (body.includes('<script>')) t.fail(`${what}: injected`)
          if (/a=b/.test(headers.get('set-cookie') ?? '')) t.fail(`${what}: header`)
        }
    for (const value of values) {
      const text = encodeURIComponent(value.toWellFormed())
      for (const path of [
        `${settings}/checks?rule=${text}`,
        `${settings}/checks?reserve=${text}`,
        `${settings}/events?before=${text}`,
        `${settings}/events?kind=${text}`,
        `${settings}/events?user=${text}`,
        `/settings/tokens?repository=${text}`,
        `/settings/repositories/new?owner=${text}`,
        `/?q=${text}`,
        `/?after=${text}`,
        `/?state=${text}`,
        `/acme?after=${text}`,
        `/login?next=${text}`,
        `/settings/account?before=${text}`,
        `/docs/recipes?file=${text}&repository=${text}`,
        `/alice/rocket?ref=${text}`,
        `/alice/rocket?after=${text}`,
        `/alice/rocket/commits?find=${text}`,
        `/alice/rocket/commits/${text}`,
        `/alice/rocket/checks?ref=${text}`,
        `/alice/rocket/badge.svg?ref=${text}`,
        `/alice/rocket/badge.svg?context=${text}`,
        `/${text}`,
        `/${text}/rocket/settings`,
        `/alice/${text}/settings/checks`,
      ]) {
        const { status, body } = await alice.get(path)
        if (status >= 500) t.fail(`${path.slice(0, 80)}: ${status}`)
        if (body.includes('<script>')) t.fail(`${path}: injected`)
      }
      for (const end of ['members', 'names']) {
        const { status } = await alice.send('POST', `/settings/owners/${text}/${end}`, {
          form: { csrf, user: 'bob', access: 'read', from: 'none', name: 'x' },
        })
        if (status >= 500) t.fail(`${text} ${end}: ${status}`)
      }
      for (const path of [`account/sessions/${text}/end`, `tokens/${text}/revoke`, `tokens/${text}/rotate`]) {
        const { status } = await alice.send('POST', `/settings/${path}`, { form: { csrf } })
        if (status >= 500) t.fail(`${path}: ${status}`)
      }
    }
    t.match(await store.repositories.list(), [{}, {}], 'nothing')
  })
}

t.test('names of every kind are names of owners and repositories', async (t) => {
  const { server, alice } = await setUp(t)
  const { id } = await server.store.users.get('alice')
  const owners = [
    '-',
    '_',
    '...',
    'a.b',
    'owners',
    'new',
    'repositories',
    'tokens',
    'account',
    '__proto__',
    'constructor',
  ]
  const names = [...owners, 'settings', 'access', 'checks', 'events', 'commits', 'members', 'x'.repeat(100)]
  for (const [index, owner] of [...owners, 'y'.repeat(100)].entries()) {
    await asAdministrator(server.store).groups.create(owner)
    await asAdministrator(server.store).members.set(owner, id, 'admin')
    const [name = '', other = ''] = [names[index], names[(index + 7) % names.length]]
    const form = { owner, name, visibility: 'private', 'object-format': 'sha1' }
    const page = '/settings/repositories/new'
    const created = await alice.submit(page, page, form)
    t.equal(created.headers.get('location'), `/${owner}/${name}`)
    t.match((await alice.get(`/${owner}`)).body, `href="/${owner}/${name}"`)
    for (const end of ['', '/settings', '/settings/access', '/settings/checks', '/settings/events'])
      t.equal((await alice.get(`/${owner}/${name}${end}`)).status, 200, `/${owner}/${name}${end}`)
    const settings = `/${owner}/${name}/settings`
    const renamed = await alice.submit(settings, settings, { change: 'name', owner, name: other })
    t.equal(renamed.headers.get('location'), `/${owner}/${other}/settings`)
    const member = { user: 'bob', access: 'write', from: 'none' }
    const added = await alice.submit(`/${owner}`, `/settings/owners/${owner}/members`, member)
    t.equal(added.headers.get('location'), `/${owner}`)
    const released = await alice.submit(`/${owner}`, `/settings/owners/${owner}/names`, { name })
    t.match(await messageOf(alice, released.headers.get('location')), 'is not reserved any more')
  }
})

t.test(
  'a repository keeps a name that is the same, and is renamed and deleted without its files',
  async (t) => {
    const { server, alice } = await setUp(t)
    const { path } = await server.createRepository('alice/rocket')
    const rename = async (from: string, name: string) => {
      const page = `/alice/${from}/settings`
      const { headers } = await alice.submit(page, page, { change: 'name', owner: 'ALICE', name })
      const location = headers.get('location')
      return [location, await messageOf(alice, location)]
    }
    t.same(await rename('rocket', 'rocket'), [
      '/alice/rocket/settings',
      'alice/rocket has this name already.',
    ])
    t.same(await rename('rocket', 'Rocket'), ['/alice/Rocket/settings', 'alice/rocket is alice/Rocket now.'])
    t.same(await server.store.reservedNames.list(), [])

    rmSync(path, { recursive: true })
    for (const page of ['', '/access', '/checks', '/events'])
      t.equal((await alice.get(`/alice/Rocket/settings${page}`)).status, 200, page)
    t.match((await alice.get('/alice/Rocket/settings')).body, 'The branches cannot be read at the moment')
    t.match((await rename('Rocket', 'moon'))[1], /is alice\/moon now\. The name before is reserved\.$/)
    const page = '/alice/moon/settings'
    const deleted = await alice.submit(page, page, { change: 'delete', confirm: 'alice/moon' })
    t.equal(await messageOf(alice, deleted.headers.get('location')), 'alice/moon was deleted.')
  },
)

t.test('who may not read a repository any more learns no new name of it', async (t) => {
  const { server, alice, bob } = await setUp(t)
  const { store } = server
  const { id } = await server.createRepository('alice/rocket', { private: true })
  const bobId = (await store.users.get('bob')).id
  const write = asAdministrator(store)
  await write.collaborators.set({ owner: 'alice', name: 'rocket' }, bobId, 'write')
  await server.createToken('bob', { limits: { repositories: [id] } })
  const tokens = async () => (await bob.get('/settings/tokens')).body
  t.match(await tokens(), '<li>alice/rocket</li>')
  await write.collaborators.set({ owner: 'alice', name: 'rocket' }, bobId, null)
  await write.groups.create('acme')
  await write.repositories.rename({ owner: 'alice', name: 'rocket' }, { owner: 'acme', name: 'secret' })
  t.match(await tokens(), '<li>a repository that you cannot see</li>')
  const pages = [await tokens(), (await alice.get('/alice')).body, (await bob.get('/settings/account')).body]
  for (const body of pages) t.notMatch(body, 'secret')
  t.match(pages[1], 'moved away')
})

t.test('where users create no repositories, there is no form for it', async (t) => {
  const { alice } = await setUp(t, { repositoryCreation: false })
  t.equal((await alice.get('/settings/repositories/new')).status, 404)
  t.notMatch((await alice.get('/')).body, 'repositories/new')
})
