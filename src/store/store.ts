import { join } from 'node:path'
import { accessStore } from './access.ts'
import type { Engine } from './engine.ts'
import { failureStore } from './failures.ts'
import { migrate } from './migrations.ts'
import { repositoryStore } from './repositories.ts'
import { sessionStore } from './sessions.ts'
import { openSqlite } from './sqlite/engine.ts'
import { statusStore } from './statuses.ts'
import { tokenStore } from './tokens.ts'
import { userStore } from './users.ts'
import { visibleStore } from './visible.ts'

export type Store = ReturnType<typeof storeOver>

/**
 * Opens the database and brings its schema up to date.
 *
 * @param dataDir folder of the SQLite database and of the repositories that the server creates
 * @throws StoreUnavailable when it cannot be opened
 */
export async function openStore({ dataDir }: { dataDir: string }): Promise<Store> {
  const engine = await openSqlite(join(dataDir, 'commit-status.db'))
  const store = storeOver(engine, join(dataDir, 'repositories'))
  try {
    await store.migrate()
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

function storeOver(engine: Engine, repositories: string) {
  return {
    users: userStore(engine),
    repositories: repositoryStore(engine, repositories),
    tokens: tokenStore(engine),
    statuses: statusStore(engine),
    sessions: sessionStore(engine),
    failures: failureStore(engine),
    access: accessStore(engine, repositories),
    visible: visibleStore(engine, repositories),
    migrate: () => migrate(engine),
    close: () => engine.close(),
  }
}
