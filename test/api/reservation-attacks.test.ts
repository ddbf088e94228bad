import t from 'tap'
import { databases, sqlite } from '../helpers/databases.ts'
import { startServer } from '../helpers/server.ts'
import { createWorld, TO_GREEN, TO_STOP, type World } from './reservation-attacks.ts'

const BUDGET = { limit: 1_000_000, window: 300 }

/** Returns the ways by which a writer turned a commit green on which CI failed, or had not reported. */
async function turnGreen(world: World, ...states: ('failure' | 'nothing')[]): Promise<string[]> {
  const won = []
  let next = 0
  for (const [name, way] of Object.entries(TO_GREEN))
    for (const before of states) {
      const sha = world.shas[next++] ?? ''
      if (before === 'failure')
        await world.bot.send(sha, { state: 'failure', context: 'ci/all', run: 'ci-run', elapsed: 1_000 })
      await way(world, sha)
      if ((await world.verdict(sha)) === 'success') won.push(`${name}, after ${before}`)
    }
  return won
}

for (const database of databases) {
  t.test(`${database.name}: no way of a writer turns a reserved check green`, async (t) => {
    const world = await createWorld(await startServer(t, { database, budget: BUDGET }), 120)
    await world.reserve()
    t.same(await turnGreen(world, 'failure', ...(database === sqlite ? (['nothing'] as const) : [])), [])
    t.ok(Object.keys(TO_GREEN).length >= 40)
    t.match(
      await world.store.reservations.list(world.id),
      [{ pattern: 'ci/*', users: [{ name: 'ci-bot' }] }],
      'nobody has changed who may report',
    )
    t.match(await world.store.rules.load(world.id), [{ required: ['ci/all', 'ci/*'] }])
    const [sha = ''] = world.shas
    t.equal((await world.bot.send(sha, { state: 'success', context: 'ci/all' })).status, 201)
    t.equal(await world.verdict(sha), 'success', 'CI does')
  })

  t.test(`${database.name}: no way of a writer stops the reports of who may report`, async (t) => {
    const limited = {
      ...database,
      create: async (t: Parameters<typeof database.create>[0]) => ({
        ...(await database.create(t)),
        maxContexts: 40,
      }),
    }
    const world = await createWorld(await startServer(t, { database: limited, budget: BUDGET }), 30)
    await world.reserve()
    const stopped = []
    for (const [index, [name, way]] of Object.entries(TO_STOP).entries()) {
      const sha = world.shas[index] ?? ''
      const send = async (sha: string, more: object) =>
        (await world.bot.send(sha, { context: 'ci/all', ...more })).status
      await send(sha, { state: 'pending', run: 'ci-run', elapsed: 2_000 })
      await way(world, sha)
      const statuses = [
        await send(sha, { state: 'failure', run: 'next', elapsed: 0 }),
        await send(sha, { state: 'success' }),
        await send(world.shas.at(-1) ?? '', { state: 'success' }),
      ]
      if (statuses.some((status) => status !== 201) || (await world.verdict(sha)) !== 'success')
        stopped.push(`${name}: ${statuses}`)
    }
    t.same(stopped, [])
    t.ok(Object.keys(TO_STOP).length >= 20)
  })
}

t.test(
  'without a reservation, the same ways turn it green, unless they are of another context',
  async (t) => {
    const world = await createWorld(await startServer(t, { database: sqlite, budget: BUDGET }), 120)
    const won = await turnGreen({ ...world, reserve: async () => {} }, 'failure')
    t.ok(won.length >= 20, `${won.length}: ${won.join('; ')}`)
  },
)
