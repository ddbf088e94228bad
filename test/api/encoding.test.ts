import { join } from 'node:path'
import { type Test, test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import type { Engine } from '../../src/store/engine.ts'
import { createStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { openTestStore, sqlite } from '../helpers/databases.ts'
import { callerOf } from '../helpers/server.ts'

const SHA = 'a'.repeat(40)

/** Starts a server that counts how often it makes the items of an answer from rows. */
async function startCounting(t: Test) {
  const { store, options } = await openTestStore(t, sqlite)
  const lookup = new CommitLookup()
  let made = 0

  /**
   * Replaces the description of the first row by a getter, which is called whenever an item is made
   * from the row.
   */
  function observe<Row>(rows: Row[]): Row[] {
    const [first] = rows
    if (typeof first !== 'object' || first === null || !('description' in first)) return rows
    if (Object.getOwnPropertyDescriptor(first, 'description')?.get) return rows
    const { description } = first
    const get = () => {
      made++
      return description
    }
    Object.defineProperty(first, 'description', { enumerable: true, get })
    return rows
  }

  const engine: Engine = {
    ...store.engine,
    read: async (...call) => observe(await store.engine.read(...call)),
  }
  const app = await buildApp({
    store: createStore(engine, join(options.dataDir, 'repositories')),
    lookup,
    spool: await openSpool(options.dataDir, 0),
  })
  t.teardown(async () => {
    await app.close()
    await lookup.close()
  })
  const { read, call } = callerOf(await app.listen({ host: '127.0.0.1', port: 0 }))
  return { store, call, read: () => read('acme/one', SHA), made: () => made }
}

for (const contexts of [10, 300]) {
  test(`an answer with ${contexts} contexts is encoded once while nothing changes`, async (t) => {
    const { store, call, read, made } = await startCounting(t)
    const { id: repositoryId } = await asAdministrator(store).repositories.create({
      owner: 'acme',
      name: 'one',
      visibility: 'public',
      objectFormat: 'sha1',
    })
    const report = (index: number) =>
      store.statuses.report({
        repositoryId,
        sha: SHA,
        context: `context ${index}`,
        state: 'success',
        description: 'passed',
        target_url: null,
      })
    await Promise.all(Array.from({ length: contexts }, (_, index) => report(index)))
    await read()
    const once = made()
    t.ok(once > 0)
    for (let count = 0; count < 5; count++) t.equal((await read()).status, 200)
    await Promise.all(Array.from({ length: 5 }, read))
    t.equal(made(), once)
    await report(0)
    t.equal((await read()).json.statuses?.length, contexts)
    t.equal(made(), 2 * once, 'and once more after a report')

    const names = (await read()).json.statuses?.map(({ context }) => context)
    const verdict = await call(
      'GET',
      `/api/v1/repos/acme/one/commits/${SHA}/verdict?require=none&require=context*`,
    )
    t.same(verdict.json, {
      verdict: 'pending',
      state: 'success',
      required: [
        { pattern: 'none', state: null, contexts: [] },
        { pattern: 'context*', state: 'success', contexts: names },
      ],
    })
  })
}
