import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { type Config, readConfig } from '../../config.ts'
import { ADMINISTRATOR, type Administrator } from '../../domain/actors.ts'
import { checkAccount, commandToClose } from '../../ops/data-directory.ts'
import type { Change, Transact } from '../../store/audit/change.ts'
import { openStore, type Store, type StoreOptions } from '../../store/store.ts'
import { accountName } from '../../util/accounts.ts'
import { callerPath, UsageError } from './arguments.ts'
import { parseEnvironmentFile } from './environment-file.ts'
import { say } from './output.ts'

/** SQLite's default, in KiB: rows that are read once need no more. */
const READING_CACHE = 2_000

type Work = (store: Store, config: Config) => Promise<unknown>

/**
 * Returns the settings of the environment and `--env-file`, after making sure that this account may
 * use the data directory.
 */
export type Settings = () => Config & Pick<StoreOptions, 'operator' | 'statementTimeout'>

export function settingsOf(program: Command, environment: NodeJS.ProcessEnv): Settings {
  const { SUDO_USER } = environment
  const uid = process.geteuid?.() ?? 0
  const operator = { account: accountName(uid) ?? `${uid}`, ...(SUDO_USER && { sudo_user: SUDO_USER }) }
  return () => {
    const config = readConfig(readEnvironment(program.opts<{ envFile?: string }>().envFile, environment))
    for (const warning of config.warnings) say(`warning: ${warning}`)
    checkAccount(config.dataDir, 'commit-status-admin …')
    return { ...config, operator, statementTimeout: false }
  }
}

/**
 * Runs `work` on the database that the settings name, which must exist unless it may be created,
 * and closes it.
 */
export async function withStore(
  settings: Settings,
  work: Work,
  options?: Pick<StoreOptions, 'create' | 'migrate' | 'pageCache'>,
): Promise<void> {
  const config = settings()
  const store = await openStore({ ...config, create: false, ...options })
  try {
    // Not before the database is open: a folder that is not the server's must keep its modes.
    const command = commandToClose(config.dataDir)
    if (command) say(`warning: other accounts of this machine can open DATA_DIR. Run: ${command}`)
    await work(store, config)
  } finally {
    await store.close()
  }
}

/**
 * Does the same, and creates a missing database: a first user may come before the first start of
 * the server.
 */
export const creatingStore = (settings: Settings, work: Work) => withStore(settings, work, { create: true })

/**
 * Does the same for work that only reads, each row once. It keeps the schema, which an older server
 * may be using.
 */
export const readingStore = (settings: Settings, work: Work) =>
  withStore(settings, work, { migrate: false, pageCache: READING_CACHE })

/** Returns a function that changes something for whoever runs the command. */
export function asAdministrator({ audit }: Store): Transact<Administrator> {
  return (work) => audit.transaction(ADMINISTRATOR, work)
}

/** Does the same as `withStore` for work that is one change. */
export const changeStore = (
  settings: Settings,
  work: (change: Change<Administrator>, store: Store) => Promise<unknown>,
) => withStore(settings, (store) => asAdministrator(store)((change) => work(change, store)))

/**
 * Returns the environment with the variables of a file; one that is set already keeps its value.
 *
 * @throws UsageError when the file cannot be read
 */
function readEnvironment(file: string | undefined, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (file === undefined) return environment
  try {
    return { ...parseEnvironmentFile(readFileSync(callerPath(file), 'utf8')), ...environment }
  } catch (error) {
    throw new UsageError(`--env-file: ${error instanceof Error ? error.message : error}`)
  }
}
