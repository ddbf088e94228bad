import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { StoreOptions } from '../../src/store/store.ts'
import { databaseUrl, execute } from '../helpers/databases.ts'
import type { PreparedAnswer } from './baseline-http.ts'
import { createFixture, type Fixture } from './fixture.ts'
import { type ServerProcess, startProcess } from './processes.ts'
import { report } from './requests.ts'

const root = resolve(import.meta.dirname, '../..')

/**
 * Returns the arguments of node in `npm start`, or another script, of a copy of this project: what
 * follows `exec node`.
 */
export function startArgs(folder = root, script: 'start' | 'cli' = 'start'): string[] {
  const { scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return scripts[script].split(' ').slice(2)
}

/** Returns the environment of our server. */
export function serverSettings({ dataDir, databaseUrl }: StoreOptions): NodeJS.ProcessEnv {
  return {
    DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl ?? '',
    PORT: '0',
    LOG_LEVEL: 'error',
    // Some requests set X-Forwarded-For.
    TRUSTED_PROXIES: '127.0.0.1',
  }
}

/** Our server on a database. */
export interface Served {
  fixture: Fixture
  server: ServerProcess
  /** Stops it and removes its files. */
  remove(): Promise<void>
}

/** Returns the arguments of node and the environment that start our server on a fixture. */
export function ourCommand({ options }: Fixture): { args: string[]; env: NodeJS.ProcessEnv } {
  return { args: startArgs(), env: serverSettings(options) }
}

/**
 * Creates a fixture and serves it.
 *
 * @param postgres URL of a PostgreSQL server; SQLite by default
 */
export async function serve(size: number, postgres?: string): Promise<Served> {
  const fixture = await createFixture(size, postgres && (await createDatabase(postgres)))
  const { args, env } = ourCommand(fixture)
  const server = await startProcess(args, env)
  return {
    fixture,
    server,
    async remove() {
      await server.stop()
      rmSync(fixture.options.dataDir, { recursive: true, force: true })
    },
  }
}

export async function createDatabase(postgres: string): Promise<string> {
  const name = `bench_${randomBytes(6).toString('hex')}`
  await execute(postgres, `create database ${name} template template0`)
  return databaseUrl(postgres, name)
}

/** Returns the path of a fixture's SQLite database. */
export function databaseFile({ options }: Fixture): string {
  return join(options.dataDir, 'commit-status.db')
}

/** Returns the arguments of node for `baseline-start.ts`. */
export function minimalArgs(fixture: Fixture): string[] {
  return [join(import.meta.dirname, 'baseline-start.ts'), databaseFile(fixture)]
}

/** Starts the baseline of reads and reports; see `baseline-sqlite.ts`. */
export function startSqliteBaseline(fixture: Fixture): Promise<ServerProcess> {
  const args = [databaseFile(fixture), JSON.stringify(fixture.repositories)]
  return startProcess([join(import.meta.dirname, 'baseline-sqlite.ts'), ...args])
}

/** Starts the baseline without a framework; see `baseline-http.ts`. */
export function startHttpBaseline(answers: Record<string, PreparedAnswer>): Promise<ServerProcess> {
  return startProcess([join(import.meta.dirname, 'baseline-http.ts'), JSON.stringify(answers)])
}

/** Starts the baseline on PostgreSQL; see `baseline-postgres.ts`. */
export function startPostgresBaseline({ options, tokens, sized, reported }: Fixture): Promise<ServerProcess> {
  const { path, body = '' } = report('reports', reported[0], tokens[0])
  const sample = {
    ...options,
    token: tokens[0],
    readPath: `/api/v1/repos/alice/public/commits/${sized.get(10)}/statuses`,
    reportPath: path,
    body: JSON.parse(body),
  }
  return startProcess([join(import.meta.dirname, 'baseline-postgres.ts'), JSON.stringify(sample)])
}
