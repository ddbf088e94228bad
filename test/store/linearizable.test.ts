import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { INITIAL, type RegisterOperation, whyNotLinearizable } from '../helpers/linearizable.ts'
import { createRandom } from '../helpers/random.ts'

const WORKERS = Number(process.env.LINEARIZABLE_WORKERS ?? 20)
const STEPS = Number(process.env.LINEARIZABLE_STEPS ?? 30)
const CONTEXTS = ['a', 'b', 'c', 'd']
const COMMITS = 3
const shaOf = (commit: number) => String(commit).repeat(40)

t.test('the model finds what a register cannot do', async (t) => {
  const write = (value: string, called: number, answered: number): RegisterOperation => ({
    kind: 'write',
    value,
    called,
    answered,
  })
  const read = (value: string, called: number, answered: number): RegisterOperation => ({
    ...write(value, called, answered),
    kind: 'read',
  })
  const never = Number.POSITIVE_INFINITY
  for (const history of [
    [read(INITIAL, 0, 1), write('x', 2, 3), read('x', 4, 5)],
    [write('x', 0, 9), read(INITIAL, 1, 2), read('x', 3, 4)],
    [write('x', 0, 5), write('y', 1, 6), read('x', 7, 8)],
    [write('x', 0, never), read(INITIAL, 1, 2), read('x', 100, 101)],
  ])
    t.equal(whyNotLinearizable(history), null)
  for (const [history, reason] of [
    [[write('x', 0, 1), read(INITIAL, 2, 3)], /both there|was there while/],
    [[read('x', 0, 1), write('x', 2, 3)], /before it was written/],
    [[write('x', 0, 1), write('y', 2, 3), read('x', 4, 5)], /was there while "x"/],
    [[write('x', 0, 9), read('x', 1, 2), read(INITIAL, 3, 4)], /both there|was there while/],
    [[write('x', 0, 3), write('y', 0, 3), read('x', 4, 5), read('y', 6, 7), read('x', 8, 9)], /both there/],
    [[read('z', 0, 1)], /before it was written/],
  ] as const)
    t.match(whyNotLinearizable(history), reason)
})

for (const database of databases)
  t.test(`${database.name}: reads and reports of three instances are linearizable`, async (t) => {
    const { store, options } = await openTestStore(t, database, { statementTimeout: false })
    const stores = [store, await openStore(options), await openStore(options)]
    t.teardown(() => Promise.all(stores.slice(1).map((other) => other.close())))
    const { id: repositoryId } = await asAdministrator(store).repositories.create({
      owner: 'acme',
      name: 'rocket',
      visibility: 'public',
      objectFormat: 'sha1',
    })
    const histories = new Map<string, RegisterOperation[]>()
    const historyOf = (commit: number, context: string) => {
      const key = `${commit} ${context}`
      const history = histories.get(key) ?? []
      histories.set(key, history)
      return history
    }

    let operations = 0
    await Promise.all(
      Array.from({ length: WORKERS }, async (_, worker) => {
        const random = createRandom(worker)
        const { statuses } = stores[worker % stores.length] ?? store
        for (let step = 0; step < STEPS; step++) {
          const commit = random.below(COMMITS)
          const sha = shaOf(commit)
          // Also turns in which nothing else of this worker happens.
          if (random.onceIn(4)) await setTimeout(random.below(4))
          const called = performance.now()
          operations++
          if (random.onceIn(2)) {
            const context = random.pick(CONTEXTS)
            const value = `${worker}/${step}`
            await statuses.report({ repositoryId, sha, context, state: 'success', description: value })
            historyOf(commit, context).push({ kind: 'write', value, called, answered: performance.now() })
          } else {
            const rows = await statuses.list(repositoryId, sha)
            const answered = performance.now()
            for (const context of CONTEXTS) {
              const value = rows.find((row) => row.context === context)?.description ?? INITIAL
              historyOf(commit, context).push({ kind: 'read', value, called, answered })
            }
          }
        }
      }),
    )
    for (const [key, history] of histories) t.equal(whyNotLinearizable(history), null, key)
    t.comment(`${operations} operations on ${histories.size} contexts`)
  })
