import t from 'tap'
import { createDecisions } from '../../src/branches/decisions.ts'
import { Turns } from '../../src/schedule/turns.ts'
import { MEGABYTE } from '../../src/util/memory.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, postgres, sqlite } from '../helpers/databases.ts'
import { usedMemory } from '../helpers/memory.ts'
import { addReport, addRepository } from '../helpers/records.ts'

const CLIENT = { address: '192.0.2.1' }
const shaOf = (index: number) => index.toString(16).padStart(40, '0')

t.test('on PostgreSQL many commits are read at once, and large ones are not', async (t) => {
  const { store } = await openTestStore(t, postgres)
  const repository = await addRepository(store, 'acme/rocket', { commits: 0 })
  const { id: repositoryId } = repository
  const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
  await asAdministrator(store).rules.set(repository, rule)
  const reads: number[] = []
  let loads = 0
  const decide = createDecisions(
    {
      remote: store.remote,
      rules: {
        ...store.rules,
        load: (id) => {
          loads++
          return store.rules.load(id)
        },
      },
      reportedContexts: (id, shas) => {
        reads.push(shas.length)
        return store.reportedContexts(id, shas)
      },
    },
    new Turns(true),
  )
  const candidates = Array.from({ length: 300 }, (_, index) => ({
    sha: shaOf(index),
    refs: ['refs/heads/main'],
  }))
  await addReport({ store, repositoryId, sha: shaOf(250) }, 'ci')
  const decisions = await decide(repositoryId, candidates, { require: [] }, CLIENT)
  t.same(
    decisions.flatMap(({ verdict }, index) => (verdict === 'success' ? [index] : [])),
    [250],
  )
  t.same([reads, loads], [[10, 60, 60, 60, 60, 50], 7])

  for (let context = 0; context < 500; context++)
    for (const index of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
      await addReport({ store, repositoryId, sha: shaOf(index) }, `c${context}`)
  reads.length = 0
  await decide(repositoryId, candidates.slice(0, 40), { require: [] }, CLIENT)
  t.same(reads, [10, 20, 10])
})

for (const database of databases)
  t.test(
    `${database.name}: a rule that is set while statuses are read decides about all of them`,
    async (t) => {
      const { store } = await openTestStore(t, database)
      const repository = await addRepository(store, 'acme/rocket', { commits: 0 })
      const { id: repositoryId } = repository
      const setRule = (...required: string[]) =>
        asAdministrator(store).rules.set(repository, { refPattern: 'main', required, bypass: [] })
      await setRule('ci')
      await addReport({ store, repositoryId, sha: shaOf(1) }, 'ci')
      let reads = 0
      const decide = createDecisions(
        {
          ...store,
          reportedContexts: async (id, shas) => {
            const reported = await store.reportedContexts(id, shas)
            if (reads++ === 0) {
              await setRule('ci', 'lint')
              await addReport({ store, repositoryId, sha: shaOf(1) }, 'lint')
            }
            return reported
          },
        },
        new Turns(store.remote),
      )
      const candidates = [{ sha: shaOf(1), refs: ['refs/heads/main'] }]
      t.match(await decide(repositoryId, candidates, { require: [] }, CLIENT), [
        { verdict: 'success', counts: { success: 2 } },
      ])
      t.equal(reads, 2)
    },
  )

t.test('the same commit is passed over or not, as each question says', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id } = await addRepository(store, 'acme/rocket', { commits: 0 })
  const decide = createDecisions(store, new Turns(false))
  await addReport({ store, repositoryId: id, sha: shaOf(1) }, 'ci', 'failure')
  const candidates = [{ sha: shaOf(1), refs: ['refs/heads/main'] }]
  for (const unless of ['lint', 'ci', undefined, 'ci', 'lint', 'ci'])
    t.match(
      await decide(id, candidates, { require: ['lint'], unless }, CLIENT),
      [{ verdict: 'pending', isPassedOver: unless === 'ci' }],
      `unless ${unless}`,
    )
})

t.test('decisions take a bounded amount of memory, whatever is asked', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id: repositoryId } = await addRepository(store, 'acme/rocket', { commits: 0 })
  const decide = createDecisions(store, new Turns(false))
  const candidates = Array.from({ length: 300 }, (_, index) => ({
    sha: shaOf(index),
    refs: ['refs/heads/main'],
  }))
  for (const { sha } of candidates) await addReport({ store, repositoryId, sha }, 'ci')
  const ask = async (count: number) => {
    for (let index = 0; index < count; index++)
      await decide(repositoryId, candidates, { require: [`${count} ${index}`] }, CLIENT)
    return usedMemory()
  }
  const before = await ask(10)
  t.ok((await ask(1_500)) - before < 48 * MEGABYTE)
})

t.test('long lists of required checks take a bounded amount of memory', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id } = await addRepository(store, 'acme/rocket', { commits: 0 })
  const decide = createDecisions(store, new Turns(false))
  const candidates = [{ sha: shaOf(1), refs: [] }]
  const ask = async (count: number) => {
    for (let index = 0; index < count; index++) {
      const require = Array.from({ length: 20 }, (_, check) => `${count} ${index} ${check} `.padEnd(250, 'x'))
      await decide(id, candidates, { require }, CLIENT)
    }
    return usedMemory()
  }
  const before = await ask(10)
  t.ok((await ask(1_500)) - before < 8 * MEGABYTE)
})
