import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { createAccount } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const REPO = 'acme/rocket'
/** Patterns, in the order in which they are set, and whom they name. */
const RESERVED = [
  ['ci/*', 'ci-bot', 'lander'],
  ['ci/all', 'ci-bot'],
  ['*/all', 'ci-bot', 'writer'],
  ['deploy', 'ghost'],
] as const
const CONTEXTS = [
  'ci/all',
  'ci/build',
  'x/all',
  'lint',
  'CI/all',
  'ci/',
  'ci',
  'deploy',
  'ci/ａll',
  ' ci/all',
] as const
const USERS = ['ci-bot', 'lander', 'writer'] as const
const STATES = ['pending', 'success', 'failure', 'error'] as const

/** Who may report a context: written out, since the server finds it by matching. */
const NAMED: Partial<Record<(typeof CONTEXTS)[number], readonly string[]>> = {
  'ci/all': ['ci-bot'],
  'ci/build': ['ci-bot', 'lander'],
  'ci/ａll': ['ci-bot', 'lander'],
  'ci/': ['ci-bot', 'lander'],
  'x/all': ['ci-bot', 'writer'],
  'CI/all': ['ci-bot', 'writer'],
  ' ci/all': ['ci-bot', 'writer'],
  deploy: [],
}

for (const database of databases)
  t.test(
    `${database.name}: a reserved context is reported only by those whom each pattern names`,
    async (t) => {
      const server = await startServer(t, { database })
      const { store } = server
      const write = asAdministrator(store)
      const repository = await server.createRepository(REPO, { commits: 1 })
      const [sha = ''] = repository.commits
      const tokens = new Map<string, string>()
      for (const name of [...USERS, 'ghost']) {
        const id = await createAccount(server, name)
        await write.collaborators.set({ owner: 'acme', name: 'rocket' }, id, 'write')
        tokens.set(name, await server.createToken(name))
      }
      const set = async (pattern: string, names: readonly string[] | null) => {
        const users = names && (await Promise.all(names.map((name) => store.users.get(name))))
        await write.reservations.set({ owner: 'acme', name: 'rocket' }, pattern, users)
      }
      const send = (user: string, body: object) => server.report(REPO, sha, body, tokens.get(user) ?? '')
      const rows = () => store.engine.kysely.selectFrom('statuses').selectAll().orderBy('context').execute()

      t.equal(
        (await send('writer', { state: 'failure', context: 'ci/all', run: 'w', elapsed: 0 })).status,
        201,
      )
      for (const [pattern, ...users] of RESERVED) await set(pattern, users)
      await write.users.delete('ghost')
      await createAccount(server, 'ghost')
      await write.collaborators.set(
        { owner: 'acme', name: 'rocket' },
        (await store.users.get('ghost')).id,
        'write',
      )
      tokens.set('ghost', await server.createToken('ghost'))

      for (const context of CONTEXTS)
        for (const user of [...USERS, 'ghost'])
          for (const state of STATES)
            for (const more of [{}, { run: 'r' }, { run: 'r', claim: 10 }]) {
              const named = NAMED[context]
              const isAsking = state === 'pending' && !('run' in more)
              const isAllowed = named === undefined || named.includes(user) || isAsking
              const before = isAllowed ? [] : await rows()
              const { status, json } = await send(user, { state, context, ...more })
              const what = `${user} reports ${JSON.stringify({ state, context, ...more })}`
              if (isAllowed) t.ok(status === 201 || status === 409, `${what}: ${status}`)
              else {
                const names = (named ?? []).join(', ') || 'nobody'
                t.same(
                  [status, json.error],
                  [403, `${JSON.stringify(context)} may be reported by ${names}. Nothing was changed.`],
                  what,
                )
                t.same(await rows(), before, `${what}: nothing has changed`)
              }
            }

      const limited = await server.createToken('ci-bot', { limits: { contexts: ['lint'] } })
      t.match(await server.report(REPO, sha, { state: 'success', context: 'ci/all' }, limited), {
        status: 403,
        json: { error: /^This token may not/ },
      })
      t.equal(
        (
          await server.report(
            REPO,
            'f'.repeat(40),
            { state: 'success', context: 'ci/all' },
            tokens.get('writer') ?? '',
          )
        ).status,
        403,
        'before the commit',
      )

      await t.rejects(set('ci/build', ['writer']), {
        message: /nobody could report what both "ci\/build" and "ci\/\*" match/,
      })
      await t.rejects(set('*', ['writer']), { message: /nobody could report/ })
      await t.rejects(set('x', ['acme-group']), { message: /there is no user "acme-group"/ })
      await t.rejects(set('x', []), { message: /name at least one user/ })
      await t.rejects(set('', ['writer']), { message: /the pattern is empty/ })
      await t.rejects(set('unknown', null), { message: /is not reserved/ })
      await set('deploy', null)
      t.equal((await send('writer', { state: 'success', context: 'deploy' })).status, 201, 'for anyone again')
      for (let index = 3; index < 20; index++) await set(`other ${index}`, ['writer'])
      await t.rejects(set('one more', ['writer']), { message: /at most 20 are allowed/ })
      const events = await listEvents(store, {})
      t.match(
        events.filter(({ action }) => action === 'repository.reporters').map(({ details }) => details),
        [{ pattern: 'ci/*', users: ['ci-bot', 'lander'], from: null }],
      )

      await write.repositories.rename({ owner: 'acme', name: 'rocket' }, { owner: 'acme', name: 'missile' })
      const refused = await server.report(
        'acme/missile',
        sha,
        { state: 'success', context: 'ci/all' },
        tokens.get('writer') ?? '',
      )
      t.equal(refused.status, 403, 'a new name changes nothing')
      await store.engine.kysely.updateTable('repositories').set({ reporters: '[{"pattern":1}]' }).execute()
      await write.repositories.rename({ owner: 'acme', name: 'missile' }, { owner: 'acme', name: 'rocket' })
      t.equal(
        (await send('ci-bot', { state: 'success', context: 'lint' })).status,
        403,
        'nothing is open if the list is damaged',
      )
    },
  )
