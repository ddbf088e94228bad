import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, postgres, withoutLimit } from '../helpers/databases.ts'
import { replaceGit } from '../helpers/git.ts'
import { holdRequest } from '../helpers/held-request.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

/** Milliseconds after which a report asks again whether it may be stored. */
const AGAIN = 1_000
const BODY = JSON.stringify({ state: 'success', context: 'ci' })

/**
 * Returns a function whose result waits until the server has authorized `count` more requests, and adds the
 * time of each to `times`.
 */
function watchAuthorization(t: Test, { access }: Store, times: number[] = []) {
  const { find } = access
  t.capture(access, 'find', async (...of: Parameters<typeof find>) => {
    const result = await find(...of)
    times.push(performance.now())
    return result
  })
  return (count: number) => {
    const end = times.length + count
    return () => until(() => times.length >= end)
  }
}

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

    /** Begins a report, and lets something happen. @returns what sends the rest of it */
    const begin = async (what: string) => {
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
      return async () => {
        const { status } = await held.finish(BODY.slice(10))
        return { status, stored: await store.statuses.hasAny(repositoryId, sha) }
      }
    }

    const last = 'budget spent'
    // They wait together. With the last one, answers to the others would be 429.
    for (const names of [Object.keys(cases).filter((what) => what !== last), [last]]) {
      const begun: [string, () => Promise<unknown>][] = []
      for (const what of names) begun.push([what, await begin(what)])
      await setTimeout(AGAIN + 100)
      for (const [what, finish] of begun) {
        const status = cases[what]?.status
        t.same(await finish(), { status, stored: status === 201 }, what)
      }
    }
  })

t.test('a report for which git takes long asks again too, and a quick one does not', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/rocket', { commits: 5 })
  const id = await server.createUser('bob')
  await asAdministrator(server.store).collaborators.set({ owner: 'acme', name: 'rocket' }, id, 'write')
  const authorized = watchAuthorization(t, server.store)
  const report = async (sha = '') => {
    const token = await server.createToken('bob')
    const untilAuthorized = authorized(1)
    const since = performance.now()
    const sent = server.report('acme/rocket', sha, { state: 'success' }, token)
    await untilAuthorized()
    await asAdministrator(server.store).tokens.revokeAll(id)
    const { status } = await sent
    return { status, took: performance.now() - since }
  }
  replaceGit(t, 'case "$*" in *cat-file*) sleep 1.5;; esac; exec "$git" "$@"')
  t.equal((await report(commits[0])).status, 401)
  let quick = await report(commits[1])
  // A busy machine may take longer than the second for which a report is not asked about again.
  for (const sha of commits.slice(2)) if (quick.took >= AGAIN) quick = await report(sha)
  t.equal(quick.status, 201, 'git runs already')
})

for (const database of databases)
  t.test(`${database.name}: a report that waits for the database asks again too`, async (t) => {
    const server = await startServer(t, { database: withoutLimit(database) })
    const other = await openStore(server.options)
    t.teardown(() => other.close())
    const { kysely } = other.engine
    const authorized = watchAuthorization(t, server.store)

    const prepare = async (name: string, context = 'ci') => {
      const { id, commits } = await server.createRepository(`acme/${name}`)
      const user = await server.createUser(`user-${name}`)
      await asAdministrator(server.store).collaborators.set({ owner: 'acme', name }, user, 'write')
      const [sha = '', token] = [commits[0], await server.createToken(`user-${name}`)]
      t.equal(
        (await server.report(`acme/${name}`, sha, { state: 'pending', context: 'ci' }, token)).status,
        201,
      )
      const send = () => server.report(`acme/${name}`, sha, { state: 'success', context }, token)
      const stateOf = async () =>
        (await server.store.statuses.list(id, sha)).find((status) => status.context === context)?.state
      return { id, sha, user, send, stateOf }
    }
    const cases = {
      nothing: await prepare('nothing'),
      revoked: await prepare('revoked'),
      lowered: await prepare('lowered'),
      renamed: await prepare('renamed'),
      added: await prepare('added', 'new'),
    }
    const { revoked, lowered, renamed, added } = cases

    /** Sends reports, and holds what they wait for in a transaction that revokes tokens at its end. */
    const sendWhileHeld = (
      pause: number,
      sent: readonly Awaited<ReturnType<typeof prepare>>[],
      revokedUsers: number[],
    ) =>
      kysely.transaction().execute(async (db) => {
        const untilAuthorized = authorized(sent.length)
        await db.updateTable('statuses').set({ description: 'held' }).execute()
        if (database.name === 'PostgreSQL')
          await sql`select pg_advisory_xact_lock(hashtextextended(${added.sha}, ${added.id}))`.execute(db)
        const since = performance.now()
        const answers = Promise.all(sent.map(({ send }) => send()))
        await untilAuthorized()
        await setTimeout(pause)
        await db.deleteFrom('tokens').where('user_id', 'in', revokedUsers).execute()
        await db
          .updateTable('collaborators')
          .set({ granted: 'read' })
          .where('user_id', '=', lowered.user)
          .execute()
        await db.updateTable('repositories').set({ name_key: 'new' }).where('id', '=', renamed.id).execute()
        return { answers, since }
      })
    const statusesOf = async ({ answers, since }: Awaited<ReturnType<typeof sendWhileHeld>>) => {
      const all = await answers
      return { statuses: all.map(({ status }) => status), took: performance.now() - since }
    }

    const held = await sendWhileHeld(AGAIN + 300, Object.values(cases), [revoked.user, added.user])
    t.same((await statusesOf(held)).statuses, [201, 401, 403, 404, 401])
    const states = await Promise.all(Object.values(cases).map(({ stateOf }) => stateOf()))
    t.same(states, ['success', 'pending', 'pending', 'pending', undefined])
    const sendQuickly = async (name: string) => {
      const quick = await prepare(name)
      return statusesOf(await sendWhileHeld(100, [quick], [quick.user]))
    }
    let quick = await sendQuickly('quick')
    // A busy machine may take longer than the second.
    for (const name of ['again', 'once-more', 'at-last'])
      if (quick.took >= AGAIN) quick = await sendQuickly(name)
    t.same(quick.statuses, [201], 'not after a short wait')
  })

t.test('a report that is not stored within a second, four times in a row, gets 503', async (t) => {
  const server = await startServer(t, { database: withoutLimit(postgres) })
  const { id, commits } = await server.createRepository('acme/rocket')
  const sha = commits[0] ?? ''
  const token = await server.createToken('acme')
  const authorized: number[] = []
  watchAuthorization(t, server.store, authorized)
  const connectionString = server.options.databaseUrl ?? ''
  const clients = [new Client({ connectionString }), new Client({ connectionString })] as const
  for (const client of clients) {
    await client.connect()
    t.teardown(() => client.end())
    await client.query('begin')
  }
  const lock = (client: Client) =>
    client.query('select pg_advisory_xact_lock(hashtextextended($1, $2))', [sha, id])
  const waiting = `select from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`
  let [holder, next] = clients
  await lock(holder)
  let answer: number | undefined
  const sent = server.report('acme/rocket', sha, { state: 'success' }, token).then(({ status }) => {
    answer = status
  })
  // One of them holds the lock at any time, and gives it up to the other only when the report is late.
  for (let turn = 0; turn < 20 && answer === undefined; turn++) {
    const taken = lock(next)
    await until(async () => answer !== undefined || (await holder.query(waiting)).rows.length >= 2)
    while (performance.now() - (authorized.at(-1) ?? 0) < AGAIN + 100) await setTimeout(50)
    await holder.query('commit; begin')
    await taken
    ;[holder, next] = [next, holder]
  }
  await holder.query('commit')
  await sent
  t.equal(answer, 503)
  t.equal(authorized.length, 4)
  t.same(await server.store.statuses.list(id, sha), [])
})
