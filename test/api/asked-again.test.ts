import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { replaceGit } from '../helpers/git.ts'
import { holdRequest } from '../helpers/held-request.ts'
import { startServer } from '../helpers/server.ts'

/** Milliseconds after which a report asks again whether it may be stored. */
const AGAIN = 1_000
const BODY = JSON.stringify({ state: 'success', context: 'ci' })

for (const database of databases)
  t.test(`${database.name}: a report that comes slowly asks again before it is stored`, async (t) => {
    const server = await startServer(t, { database })
    const { store } = server
    const administrator = asAdministrator(store)

    /** What happens to the user `user` and the repository `acme/NAME` while the body arrives. */
    const cases: Record<
      string,
      { status: number; happen?: (of: { name: string; id: number; user: string }) => unknown }
    > = {
      nothing: { status: 201 },
      revoked: { status: 401, happen: ({ id }) => administrator.tokens.revokeAll(id) },
      locked: { status: 401, happen: ({ user }) => administrator.users.setLocked(user, true) },
      deleted: { status: 401, happen: ({ user }) => administrator.users.delete(user) },
      lowered: { status: 403, happen: ({ name, id }) => setAccess(name, id, 'read') },
      removed: { status: 404, happen: ({ name, id }) => setAccess(name, id, null) },
      renamed: { status: 404, happen: ({ name }) => rename(name) },
      replaced: {
        status: 404,
        async happen({ name, id }) {
          await rename(name)
          await administrator.reservedNames.release({ owner: 'acme', name })
          await create(name)
          await setAccess(name, id, 'write')
        },
      },
      'repository deleted': {
        status: 404,
        happen: ({ name }) => administrator.repositories.delete({ owner: 'acme', name }),
      },
      'budget spent': {
        status: 201,
        happen: () => Promise.all(Array.from({ length: 40 }, () => server.read('acme/none', SHA, 'wrong'))),
      },
    }
    const create = (name: string) => server.createRepository(`acme/${name}`, { private: true })
    const setAccess = (name: string, id: number, access: 'read' | 'write' | null) =>
      administrator.collaborators.set({ owner: 'acme', name }, id, access)
    const rename = (name: string) =>
      administrator.repositories.rename({ owner: 'acme', name }, { owner: 'acme', name: `${name}-new` })
    const SHA = '0'.repeat(40)

    const report = async (what: string, pause: number) => {
      const name = what.replaceAll(' ', '-')
      const user = `user-${name}`
      const { id: repositoryId, commits } = await create(name)
      const sha = commits[0] ?? ''
      const id = await server.createUser(user)
      await setAccess(name, id, 'write')
      const held = await holdRequest(
        'POST',
        `${server.url}/api/v1/repos/acme/${name}/statuses/${sha}`,
        { authorization: `Bearer ${await server.createToken(user)}`, 'content-type': 'application/json' },
        BODY.length,
      )
      held.send(BODY.slice(0, 10))
      await cases[what]?.happen?.({ name, id, user })
      await setTimeout(pause)
      const { status } = await held.finish(BODY.slice(10))
      return { status, stored: await store.statuses.hasAny(repositoryId, sha) }
    }

    for (const [what, { status }] of Object.entries(cases))
      t.same(await report(what, AGAIN + 100), { status, stored: status === 201 }, what)
  })

t.test('a report for which git takes long asks again too, and a quick one does not', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/rocket', { commits: 2 })
  const id = await server.createUser('bob')
  await asAdministrator(server.store).collaborators.set({ owner: 'acme', name: 'rocket' }, id, 'write')
  const report = async (sha = '', pause = 0) => {
    const sent = server.report('acme/rocket', sha, { state: 'success' }, await server.createToken('bob'))
    await setTimeout(pause)
    await asAdministrator(server.store).tokens.revokeAll(id)
    return (await sent).status
  }
  replaceGit(t, 'case "$*" in *cat-file*) sleep 1.5;; esac; exec "$git" "$@"')
  t.equal(await report(commits[0], 300), 401)
  t.equal(await report(commits[1], 300), 201, 'git runs already')
})
