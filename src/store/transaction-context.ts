import { AsyncLocalStorage } from 'node:async_hooks'

const running = new AsyncLocalStorage<{ isOpen: boolean }>()

/** Runs the work of a transaction. */
export async function runInTransaction<T>(work: () => Promise<T>): Promise<T> {
  const transaction = { isOpen: true }
  try {
    return await running.run(transaction, work)
  } finally {
    transaction.isOpen = false
  }
}

/**
 * Throws if the caller is the work of a transaction. A query on another connection would not see
 * what the transaction has done. On SQLite there is no other: the query would wait for the end of
 * the transaction, and the transaction for the query.
 */
export function checkOutsideTransaction(): void {
  if (running.getStore()?.isOpen)
    throw new Error('a query of a transaction must run in it: use the database of its change')
}
