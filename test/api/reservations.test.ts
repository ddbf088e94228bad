import t, { type Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import { openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, type TestDatabase } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { createAccount } from '../helpers/page-client.ts'
import { playHistories } from '../helpers/reservation-histories.ts'
import { decide, type ModelReservation, reportersIn } from '../helpers/reservation-model.ts'
import { callerOf, startServer, type TestServer } from '../helpers/server.ts'

const NAME = { owner: 'acme', name: 'rocket' }
const REPO = 'acme/rocket'
/** Patterns, in the order in which they are set, and whom they name. */
const RESERVED = [
  ['ci/*', 'ci-bot', 'lander'],
  ['ci/all', 'ci-bot'],
  ['*/all', 'ci-bot', 'writer'],
  ['deploy', 'ghost'],
] as const
const CONTEXTS = ['ci/all', 'ci/build', 'x/all', 'lint', 'deploy', 'ci/ａll'] as const
const STATES = ['pending', 'success', 'failure', 'error'] as const
const RUNS = [{}, { run: 'r' }, { run: 'r', claim: 10 }] as const
const LIMITS = ['ci/*', 'lint']

/** Starts a server with writers, and functions that reserve contexts and report. */
async function setUp(t: Test, database: TestDatabase, names: readonly string[]) {
  const server = await startServer(t, { database })
  const { store } = server
  const write = asAdministrator(store)
  const { id, commits } = await server.createRepository(REPO, { commits: 1 })
  const [sha = ''] = commits
  const users = new Map<string, { id: number; token: string }>()
  const add = async (name: string) => {
    const id = await createAccount(server, name)
    await write.collaborators.set(NAME, id, 'write')
    users.set(name, { id, token: await server.createToken(name) })
  }
  for (const name of names) await add(name)
  return {
    ...server,
    write,
    id,
    sha,
    users,
    add,
    set: async (pattern: string, names: readonly string[] | null) => {
      const named = names && (await Promise.all(names.map((name) => store.users.get(name))))
      await write.reservations.set(NAME, pattern, named)
    },
    send: (user: string, body: object) => server.report(REPO, sha, body, users.get(user)?.token ?? ''),
    rows: () =>
      store.engine.kysely
        .selectFrom('statuses')
        .selectAll()
        .where('repository_id', '=', id)
        .orderBy('context')
        .execute(),
  }
}

/** Starts a second server on the database of the first. */
async function startAnother(t: Test, { options }: TestServer) {
  const store = await openStore(options)
  const lookup = new CommitLookup()
  const spool = await openSpool(options.dataDir, 0)
  const app = await buildApp({ store, lookup, spool, maxEventLoopDelay: 60_000 })
  t.teardown(async () => {
    await app.close()
    await lookup.close()
    await store.close()
  })
  return { store, url: await app.listen({ host: '127.0.0.1', port: 0 }) }
}

for (const database of databases) {
  t.test(`${database.name}: each report of a reserved context is taken as the text says`, async (t) => {
    const { store, write, id, add, set, users, rows, report, sha, createToken } = await setUp(t, database, [
      'ci-bot',
      'lander',
      'writer',
      'ghost',
    ])
    const model: ModelReservation[] = []
    for (const [pattern, ...names] of RESERVED) {
      await set(pattern, names)
      model.push({ pattern, users: names.map((name) => users.get(name)?.id ?? 0) })
    }
    await write.users.delete('ghost')
    await add('ghost')

    const wrong: string[] = []
    let stored = await rows()
    const check = async (name: string, token: string, limits: readonly string[] | null, body: object) => {
      const sent = { context: '', state: '', ...body }
      const expected = decide(model, users.get(name)?.id ?? 0, limits, sent)
      const { status, json } = await report(REPO, sha, body, token)
      const ids = reportersIn(model, sent.context) ?? []
      const named = [...users].filter(([, { id }]) => ids.includes(id)).map(([name]) => name)
      const right = {
        taken: status === 201 || (status === 409 && 'run' in body),
        limited: status === 403 && json.error?.startsWith('This token may not report'),
        reserved:
          status === 403 &&
          json.error ===
            `${JSON.stringify(sent.context)} may be reported by ${named.sort().join(', ') || 'nobody'}. Nothing was changed.`,
      }[expected]
      const before = stored
      stored = await rows()
      const isSame = expected === 'taken' || JSON.stringify(stored) === JSON.stringify(before)
      if (!right || !isSame)
        wrong.push(`${name} ${JSON.stringify(body)}: ${expected}, but ${status} ${json.error}, ${isSame}`)
    }
    for (const [name, { token }] of users) {
      const limited = await createToken(name, { limits: { contexts: LIMITS } })
      for (const context of CONTEXTS)
        for (const state of STATES)
          for (const run of RUNS) {
            await check(name, token, null, { context, state, ...run })
            if (state === 'success' && run === RUNS[0])
              await check(name, limited, LIMITS, { context, state, ...run })
          }
    }
    t.same(wrong, [])
    t.same(
      (await store.reservations.list(id)).at(-1)?.users,
      [],
      'nobody is named by the pattern of a deleted user',
    )
  })

  t.test(`${database.name}: what may be reserved, and what keeps it`, async (t) => {
    const { store, write, set, send, sha, users, report, add, id } = await setUp(t, database, [
      'ci-bot',
      'lander',
      'writer',
    ])
    const success = (context: string) => ({ context, state: 'success' })
    for (const [pattern, names, problem] of [
      ['ci/*', ['ci-bot', 'lander'], null],
      ['ci/build', ['writer'], /nobody could report what both "ci\/build" and "ci\/\*" match/],
      ['*', ['writer'], /nobody could report/],
      ['*i/*', ['writer'], /nobody could report/],
      ['ci/*/x*', ['writer'], /nobody could report/],
      // Neither contains the other.
      ['*/all', ['writer'], null],
      ['ci/all', ['lander'], /both "ci\/all" and "\*\/all"/],
      ['x', [], /name at least one user/],
      ['', ['writer'], /the pattern is empty/],
      ['x'.repeat(256), ['writer'], /256 characters long/],
      ['unknown', null, /is not reserved/],
      ['*/all', null, null],
    ] as const)
      if (problem === null) await set(pattern, names)
      else await t.rejects(set(pattern, names), { name: 'Refusal', message: problem })
    t.match(
      (await listEvents(store))
        .filter(({ action }) => action === 'repository.reporters')
        .map(({ details }) => details),
      [
        { pattern: 'ci/*', users: ['ci-bot', 'lander'], from: null },
        { pattern: '*/all', users: ['writer'], from: null },
        { pattern: '*/all', users: null, from: ['writer'] },
      ],
    )
    t.match(
      await report(REPO, 'f'.repeat(40), success('ci/all'), users.get('writer')?.token),
      { status: 403 },
      'before the commit',
    )

    await set('deploy', ['lander', 'lander'])
    const { reporters } = await store.engine.kysely
      .selectFrom('repositories')
      .select('reporters')
      .executeTakeFirstOrThrow()
    t.match(reporters, `{"pattern":"deploy","users":[${users.get('lander')?.id}]}`, 'each user once')
    await write.users.setLocked('lander', true)
    t.equal((await send('lander', success('deploy'))).status, 401, 'a locked user')
    await write.users.setLocked('lander', false)
    t.equal((await send('lander', success('deploy'))).status, 201)
    await write.users.delete('lander')
    await add('lander')
    for (const name of ['ci-bot', 'lander', 'writer']) {
      const { status, json } = await send(name, success('deploy'))
      t.same([status, json.error], [403, '"deploy" may be reported by nobody. Nothing was changed.'], name)
    }
    t.equal((await send('ci-bot', success('ci/all'))).status, 201)
    await t.rejects(write.reservations.set(NAME, 'x', [{ id: 999_999, name: 'gone' }]), {
      name: 'Refusal',
      message: /deleted in the meantime/,
    })
    await t.rejects(set('deploy', ['gone']), { message: /there is no user "gone"/ })
    await t.rejects(
      write.reservations.set(
        NAME,
        'deploy',
        [{ id: users.get('writer')?.id ?? 0, name: 'writer' }],
        '["lander"]',
      ),
      { message: /somebody else has changed who may report this/ },
    )
    await set('deploy', ['lander'])
    t.equal((await send('lander', success('deploy'))).status, 201, 'named anew')

    for (let index = 2; index < 20; index++) await set(`other ${index}`, ['writer'])
    await t.rejects(set('one more', ['writer']), { message: /at most 20 are allowed/ })
    await set('other 2', ['writer', 'ci-bot'])
    const many = []
    for (let index = 0; index < 21; index++) many.push(await write.users.create(`user-${index}`))
    await t.rejects(write.reservations.set(NAME, 'other 2', many), { message: /21 users; at most 20/ })

    const [stored] = await store.engine.kysely.selectFrom('repositories').select('reporters').execute()
    const storeList = async (reporters: string | null) => {
      await store.engine.kysely.updateTable('repositories').set({ reporters }).execute()
      // A change through the store clears the caches.
      await write.collaborators.set(NAME, users.get('ci-bot')?.id ?? 0, 'write')
    }
    for (const damaged of ['[{"pattern":1}]', '{', 'null', '[{"pattern":"x","users":["1"]}]', '']) {
      await storeList(damaged)
      t.equal((await send('ci-bot', success('lint'))).status, 403, `nothing is open by ${damaged}`)
    }
    await set('*', null)
    t.equal((await send('ci-bot', success('lint'))).status, 201, 'until it is removed')
    await storeList(stored?.reporters ?? null)

    await write.repositories.rename(NAME, { owner: 'acme', name: 'missile' })
    const to = (fullName: string) => report(fullName, sha, success('ci/all'), users.get('writer')?.token)
    t.equal((await to('acme/missile')).status, 403, 'a new name changes nothing')
    await write.groups.create('staff')
    await write.repositories.rename({ owner: 'acme', name: 'missile' }, { owner: 'staff', name: 'rocket' })
    t.equal((await to('staff/rocket')).status, 403, 'nor does another owner')
    t.equal((await store.reservations.list(id)).length, 20)
    await write.repositories.rename({ owner: 'staff', name: 'rocket' }, { owner: 'lander', name: 'rocket' })
    await write.users.delete('lander', 'staff')
    t.equal((await to('staff/rocket')).status, 403, 'nor one that gets it when its owner is deleted')
    await write.repositories.delete({ owner: 'staff', name: 'rocket' })
    t.equal((await to('staff/rocket')).status, 404)
    const next = await write.repositories.create({
      owner: 'staff',
      name: 'rocket',
      visibility: 'public',
      objectFormat: 'sha1',
    })
    t.same(await store.reservations.list(next.id), [], 'another repository of the name reserves nothing')
  })

  t.test(`${database.name}: random histories at two servers end as the model says`, async (t) => {
    const server = await startServer(t, { database })
    const { store, url } = await startAnother(t, server)
    const counts = await playHistories([server.store, store], [server, callerOf(url)], {
      seed: 7,
      histories: 5,
    })
    t.ok(counts.taken > 10 && counts.reserved > 5 && counts.gone > 0, JSON.stringify(counts))
  })
}
