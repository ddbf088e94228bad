import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { listEvents } from '../helpers/events.ts'
import { git } from '../helpers/git.ts'
import { holdRequest } from '../helpers/held-request.ts'
import { createAccount, csrfOf, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { addToken } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

/** What a form is about: a user, who is an admin of a group and so of its private repository. */
interface Case {
  user: { id: number; name: string }
  group: string
  /** OWNER/NAME of the repository. */
  fullName: string
  tokenId: string
  /** The path of a commit, and the id of a status of it that a run has claimed. */
  commit: string
  status: string
  client: ReturnType<typeof openPageClient>
}

interface Form {
  path: string
  fields: Record<string, string>
}

const NEW_PASSWORD = 'another battery staple'

/** The forms of a session, of a group's admin, of a repository's, and of who may write. */
const FORMS: Record<'session' | 'group' | 'repository' | 'writer', Record<string, (of: Case) => Form>> = {
  session: {
    password: () => ({
      path: '/settings/account/password',
      fields: { current: PASSWORD, password: NEW_PASSWORD, again: NEW_PASSWORD },
    }),
    'end session': ({ client }) => {
      const hash = createHash('sha256')
        .update(client.cookies.get('session') ?? '')
        .digest('hex')
      return { path: `/settings/account/sessions/${hash.slice(0, 16)}/end`, fields: {} }
    },
    'end others': () => ({ path: '/settings/account/sessions/end-others', fields: {} }),
    token: () => ({ path: '/settings/tokens', fields: { name: 'ci', scope: 'repo', expiry: '30' } }),
    'rotated token': ({ tokenId }) => ({ path: `/settings/tokens/${tokenId}/rotate`, fields: {} }),
    'no token': ({ tokenId }) => ({ path: `/settings/tokens/${tokenId}/revoke`, fields: {} }),
  },
  group: {
    'new repository': ({ group }) => ({
      path: '/settings/repositories/new',
      fields: { owner: group, name: 'new', visibility: 'private', 'object-format': 'sha1' },
    }),
    member: ({ group }) => ({
      path: `/settings/owners/${group}/members`,
      fields: { user: 'friend', access: 'admin', from: 'none' },
    }),
    name: ({ group }) => ({ path: `/settings/owners/${group}/names`, fields: { name: 'former' } }),
  },
  repository: {
    visibility: ({ fullName }) => ({
      path: `/${fullName}/settings`,
      fields: { change: 'visibility', visibility: 'public', from: 'private' },
    }),
    branch: ({ fullName }) => ({
      path: `/${fullName}/settings`,
      fields: { change: 'branch', branch: 'trunk', from: 'main' },
    }),
    'default branch follows': ({ fullName }) => ({
      path: `/${fullName}/settings`,
      fields: { change: 'follow', follow: 'yes', from: 'false' },
    }),
    rename: ({ fullName, group }) => ({
      path: `/${fullName}/settings`,
      fields: { change: 'name', owner: group, name: 'next' },
    }),
    delete: ({ fullName }) => ({
      path: `/${fullName}/settings`,
      fields: { change: 'delete', confirm: fullName },
    }),
    access: ({ fullName }) => ({
      path: `/${fullName}/settings/access`,
      fields: { user: 'friend', access: 'admin', from: 'none' },
    }),
    rule: ({ fullName }) => ({
      path: `/${fullName}/settings/checks`,
      fields: { branch: 'main', required: 'ci', bypass: '', seen: 'null', change: 'save' },
    }),
    reporters: ({ fullName }) => ({
      path: `/${fullName}/settings/checks`,
      fields: { pattern: 'ci/*', users: 'friend', seen: 'null', change: 'reserve' },
    }),
  },
  writer: {
    'run again': ({ commit, status }) => ({ path: commit, fields: { status } }),
  },
}

const SIGNED_OUT = [403, /You are no longer signed in, so nothing was changed/] as const
const NOT_ADMIN = [403, /You may not administer this/] as const
const GONE = [404, /does not exist, or you do not have access/] as const

t.test('a form does nothing for who has lost the right while it arrived', async (t) => {
  const server = await startServer(t)
  const { store } = server
  const write = asAdministrator(store)
  await createAccount(server, 'friend')
  const passwordHash = (await store.users.get('friend')).passwordHash ?? ''
  let cases = 0

  /** The ways to lose a right: the forms that need it, what takes it away, and the answer. */
  const ways: [
    way: string,
    needed: readonly (keyof typeof FORMS)[],
    lose: (of: Case) => Promise<unknown>,
    answer: readonly [status: number, text: RegExp],
  ][] = [
    [
      'signing out',
      ['session', 'group', 'repository', 'writer'],
      ({ client }) => client.submit('/settings/account', '/logout'),
      SIGNED_OUT,
    ],
    [
      'an end of all sessions',
      ['session', 'group', 'repository', 'writer'],
      ({ user }) => write.sessions.endAll(user),
      SIGNED_OUT,
    ],
    [
      'a lock',
      ['session', 'group', 'repository', 'writer'],
      ({ user }) => write.users.setLocked(user.name, true),
      SIGNED_OUT,
    ],
    [
      'a new password',
      ['session', 'group', 'repository', 'writer'],
      async ({ user }) => write.users.setPassword(await store.users.get(user.name), passwordHash),
      SIGNED_OUT,
    ],
    [
      'a deletion of the user',
      ['session', 'group', 'repository', 'writer'],
      ({ user }) => write.users.delete(user.name),
      SIGNED_OUT,
    ],
    [
      'an end of the membership',
      ['group'],
      ({ user, group }) => write.members.set(group, user.id, null),
      NOT_ADMIN,
    ],
    [
      'an end of the membership',
      ['repository', 'writer'],
      ({ user, group }) => write.members.set(group, user.id, null),
      GONE,
    ],
    [
      'a lower permission',
      ['writer'],
      ({ user, group }) => write.members.set(group, user.id, 'read'),
      [403, /You have read access to this repository but not write access/],
    ],
    [
      'a lower permission',
      ['group', 'repository'],
      ({ user, group }) => write.members.set(group, user.id, 'write'),
      NOT_ADMIN,
    ],
    [
      'another name',
      ['repository'],
      ({ group }) =>
        write.repositories.rename({ owner: group, name: 'rocket' }, { owner: group, name: 'missile' }),
      [404, /\/rocket is called g\d+\/missile by now/],
    ],
    [
      'a deletion of the repository',
      ['repository', 'writer'],
      ({ group }) => write.repositories.delete({ owner: group, name: 'rocket' }),
      GONE,
    ],
    [
      'another repository of its name',
      ['repository', 'writer'],
      async ({ group }) => {
        const rocket = { owner: group, name: 'rocket' }
        await write.repositories.delete(rocket)
        await write.repositories.create({ ...rocket, visibility: 'private', objectFormat: 'sha1' })
      },
      GONE,
    ],
  ]

  async function createCase(): Promise<Case> {
    const [name, group] = [`u${++cases}`, `g${cases}`]
    const user = { id: await createAccount(server, name), name }
    await write.groups.create(group)
    await write.members.set(group, user.id, 'admin')
    const repository = await server.createRepository(`${group}/former`, { private: true, commits: 1 })
    const [sha = ''] = repository.commits
    git(repository.path, 'branch', 'trunk')
    const report = { repositoryId: repository.id, sha, context: 'ci', state: 'success' } as const
    const { id: status = '' } = (await store.statuses.report({ ...report, run: 'a', claim: 300 })) ?? {}
    await write.repositories.rename({ owner: group, name: 'former' }, { owner: group, name: 'rocket' })
    const { id: tokenId } = await addToken(store, user.id)
    const client = openPageClient(server.url)
    await client.signIn(name)
    const fullName = `${group}/rocket`
    return { user, group, fullName, tokenId, client, status, commit: `/${fullName}/commits/${sha}` }
  }

  /** Sends a form whose last byte arrives after `lose`. */
  async function send(of: Case, { path, fields }: Form, lose: (of: Case) => Promise<unknown>) {
    const csrf = csrfOf((await of.client.get('/settings/account')).body)
    const body = new URLSearchParams({ csrf, ...fields }).toString()
    const headers = {
      cookie: of.client.cookieHeader(),
      'content-type': 'application/x-www-form-urlencoded',
    }
    const held = await holdRequest('POST', server.url + path, headers, body.length)
    held.send(body.slice(0, -1))
    await lose(of)
    const before = await eventsBy(of)
    const { status, body: text } = await held.finish(body.slice(-1))
    return { status, text, did: (await eventsBy(of)).slice(before.length) }
  }

  const eventsBy = async ({ user }: Case) => {
    const lines = await listEvents(store, { user: user.name })
    return lines.filter(({ actor }) => actor === 'user').map(({ action }) => action)
  }

  for (const [needed, forms] of Object.entries(FORMS))
    for (const [name, formOf] of Object.entries(forms)) {
      const expected = async (t: Test) => {
        const of = await createCase()
        const { status, text, did } = await send(of, formOf(of), async () => {})
        t.ok(status === 303 || status === 200, `${name} is answered with ${status}`)
        t.notMatch(text, 'class="error"')
        t.equal(did.length, name === 'end others' ? 0 : 1, `${name} does something: ${did}`)
      }
      await expected(t)

      for (const [way, affected, lose, answer] of ways) {
        if (!affected.some((one) => one === needed)) continue
        const of = await createCase()
        const { status, text, did } = await send(of, formOf(of), lose)
        t.same(did, [], `${name} · ${way}: nothing happens`)
        t.equal(status, answer[0], `${name} · ${way}`)
        t.match(text, answer[1], `${name} · ${way}: the answer says why`)
        if (answer === SIGNED_OUT) t.notMatch(text, 'Sign out', `${name} · ${way}: nobody is signed in`)
      }
    }
})
