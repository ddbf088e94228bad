import type { KyselyPlugin } from 'kysely'
import { createStore, type Store } from '../../src/store/store.ts'

/**
 * Returns a store on the same database, and the number of statements of each of its transactions.
 *
 * @param before runs before each transaction
 */
export function watchTransactions(
  { engine, repositories }: Store,
  before: () => Promise<void> = async () => {},
): { store: Store; statements: number[] } {
  const statements: number[] = []
  let isInside = false
  const plugin: KyselyPlugin = {
    transformQuery({ node }) {
      if (isInside) statements.push((statements.pop() ?? 0) + 1)
      return node
    },
    transformResult: async ({ result }) => result,
  }
  const kysely = engine.kysely.withPlugin(plugin)
  const transaction = kysely.transaction.bind(kysely)
  kysely.transaction = () => {
    const builder = transaction()
    const execute = builder.execute.bind(builder)
    builder.execute = async (work) => {
      await before()
      try {
        return await execute((db) => {
          statements.push(0)
          isInside = true
          return work(db)
        })
      } finally {
        isInside = false
      }
    }
    return builder
  }
  return { store: createStore({ ...engine, kysely }, repositories.folder), statements }
}
