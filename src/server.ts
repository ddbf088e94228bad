import './runtime.ts'
import { join } from 'node:path'
import { buildApp } from './app.ts'
import { describeVariables, readConfig } from './config.ts'
import { ConfigError } from './config-values.ts'
import { checkGit, GitTooOld } from './git/git-version.ts'
import { removeLeftovers } from './git/leftovers.ts'
import { CommitLookup } from './git/objects/commit-lookup.ts'
import { explainOwnerProblem, findOwnerProblem } from './git/repository-owner.ts'
import { openSpool } from './git-http/spool.ts'
import { checkAccount, commandToClose } from './ops/data-directory.ts'
import { peopleBesideProxy } from './ops/local-proxy.ts'
import { createLogger } from './ops/logger.ts'
import { stopServing } from './ops/stop.ts'
import { removeDeletedRepositories } from './repositories/delete.ts'
import { adminCommand, version, versionText } from './runtime.ts'
import type { AuditLine } from './store/audit/audit.ts'
import { sharesSessions } from './store/postgres/connections.ts'
import { openStore, type Store } from './store/store.ts'
import { describeFailure, hasCode, insteadOf, isExpected, Unavailable } from './util/expected-errors.ts'

/** Returns the usage text with all variables. */
function usage(): string {
  const variables = describeVariables()
  const width = Math.max(...variables.map(({ name }) => name.length)) + 2
  const rows = variables.map(({ name, default: value, meaning }) => {
    return `  ${name.padEnd(width)}${meaning}\n${' '.repeat(width + 2)}(default: ${value})`
  })
  return `Usage: commit-status-server [--help | --version [--json]]

Serves the commit status API, git over HTTP and the pages. It is configured by environment variables:

${rows.join('\n')}

Administer it with: ${adminCommand} --help
`
}

/**
 * Milliseconds after the timeout of git until its files are removed. Longer than git takes to end,
 * because files that are removed too early are lost.
 */
const LEFTOVERS_ENDING = 60_000
/** Milliseconds between two searches for what killed pushes and commands have left. */
const LEFTOVERS_INTERVAL = 3_600_000

/**
 * Connections that may wait until they are accepted, one in each turn of the event loop, where
 * `net.core.somaxconn` is no less. The system drops others; their clients try again after 1, 3 and 7
 * seconds.
 */
const BACKLOG = 4_096
/** Milliseconds between two searches for what is left of deleted repositories. */
const DELETED_INTERVAL = 60_000

// Files that the server and git create are for this account alone.
process.umask(0o077)

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  try {
    checkAccount(config.dataDir, 'commit-status-server')
  } catch (error) {
    throw startError('DATA_DIR', error)
  }
  const logger = createLogger(config.logLevel)
  logger.info({ version, node: process.versions.node }, 'starting')
  for (const warning of config.warnings) logger.warn(warning)
  const gitChecked = checkGit().catch((error: unknown) => error)
  const onEvent = (event: AuditLine) => logger.info({ event }, 'audit')
  const store = await openStore({ ...config, onEvent, onNotice: (text) => logger.warn(text) }).catch(
    (error: unknown) => {
      throw startError(config.databaseUrl ? 'DATABASE_URL' : 'DATA_DIR', error)
    },
  )
  // Where a pooler has one connection left, the check gets no second one, which proves nothing.
  if (config.databaseUrl && (await sharesSessions(config.databaseUrl).catch(insteadOf(Unavailable, false))))
    throw new ConfigError(
      'DATABASE_URL: a pooler mixes up the sessions of its clients; with PgBouncer, set pool_mode = session',
    )
  const gitError = await gitChecked
  if (gitError instanceof GitTooOld) throw gitError
  if (gitError) logger.error({ err: gitError }, 'git cannot be run; /readyz returns 503 until it can')
  await hintAtFirstUser(store, logger)
  const command = commandToClose(config.dataDir)
  if (command) logger.warn({ command }, `Other accounts of this machine can open DATA_DIR. Run: ${command}`)
  const accounts = peopleBesideProxy(config.trustedProxies)
  if (accounts.length > 0) {
    logger.warn(
      { accounts },
      'TRUSTED_PROXIES contains this machine: these accounts can connect as the proxy does, and write any client ' +
        'into X-Forwarded-For, so that their failed authentication attempts are never blocked',
    )
  }
  const spool = await openSpool(config.dataDir, config.spoolBytes).catch((error: unknown) => {
    throw startError('DATA_DIR', error)
  })
  const lookup = new CommitLookup()
  const { host, port, git, oidc } = config
  if (oidc?.clientSecret === '') throw new ConfigError('OIDC_CLIENT_SECRET: not set, although OIDC_ISSUER is')
  const app = await buildApp({ ...config, store, lookup, spool, logger })

  const cleanUp = async () => {
    try {
      const imported = (await store.repositories.list()).filter(({ managed }) => !managed)
      const paths = imported.map(({ path }) => path)
      await removeLeftovers(join(config.dataDir, 'repositories'), paths, git.timeout + LEFTOVERS_ENDING)
    } catch (error) {
      logger.error({ err: error }, 'cannot remove what killed pushes and commands have left')
    }
  }
  void cleanUp()
  setInterval(cleanUp, LEFTOVERS_INTERVAL).unref()
  const removeDeleted = async () => {
    try {
      for (const error of await removeDeletedRepositories(store))
        logger.error({ err: error }, 'cannot remove what is left of a deleted repository; trying again')
    } catch (error) {
      logger.error({ err: error }, 'cannot remove what is left of deleted repositories; trying again')
    }
    setTimeout(removeDeleted, DELETED_INTERVAL).unref()
  }
  void removeDeleted()

  const force = new AbortController()
  let stopping: Promise<void> | undefined
  const stop = async (signal: string) => {
    logger.info({ signal }, 'stopping')
    await stopServing(app, force.signal)
    await lookup.close()
    await store.close()
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      // A second signal cuts off the requests in progress.
      if (stopping) force.abort()
      stopping ??= stop(signal).catch(fail)
    })
  }

  await app
    .listen({ host, port, backlog: BACKLOG, listenTextResolver: () => 'listening' })
    .catch((error: unknown) => {
      if (hasCode(error, 'EADDRINUSE'))
        throw startError('PORT', error, '; set PORT to a free port, or end the program that listens there')
      throw startError(hasCode(error, 'EACCES') ? 'PORT' : 'HOST', error)
    })
  const address = app.server.address()
  const listening = typeof address === 'object' && address ? address.port : port
  // Not awaited, because a network file system may not answer.
  warnOfOwners(store, logger).catch((error: unknown) =>
    logger.warn({ err: error }, 'cannot check who owns the imported repositories'),
  )
  process.stdout.write(`Listening on http://${host.includes(':') ? `[${host}]` : host}:${listening}\n`)
}

/** Returns an expected error with the name of the variable that it comes from, and what to do. */
function startError(variable: string, error: unknown, advice = ''): unknown {
  return isExpected(error)
    ? new ConfigError(`${variable}: ${error.message}${advice}`, { cause: error })
    : error
}

/** Logs how to create the first user where there is none. */
async function hintAtFirstUser(store: Store, logger: { info(text: string): void }): Promise<void> {
  if (await store.users.any()) return
  logger.info(
    `There are no users yet. Create the first one: ${adminCommand} user create NAME --password-stdin`,
  )
}

/**
 * Logs imported repositories whose configuration accounts can write that no administrator has
 * trusted.
 */
async function warnOfOwners(
  { repositories }: Store,
  logger: { warn(details: object, text: string): void },
): Promise<void> {
  for (const { owner, name, path, ownerTrust } of await repositories.list()) {
    // What cannot be read is found by `check` and by each request.
    const problem =
      ownerTrust === 'trusted' ? null : await findOwnerProblem(path).catch(insteadOf(Unavailable, null))
    const repository = `${owner}/${name}`
    if (problem) logger.warn({ repository }, explainOwnerProblem(problem, repository, path))
  }
}

/** Prints an error and exits. */
function fail(error: unknown): never {
  process.stderr.write(`${describeFailure(error)}\n`)
  process.exit(1)
}

const [, , ...args] = process.argv
const [first] = args
if (first === undefined) serve().catch(fail)
else if (first === '--help' || first === '-h') process.stdout.write(usage())
else if (first === '--version') process.stdout.write(`${versionText(args)}\n`)
else {
  process.stderr.write(`unknown argument "${first}" (expected none, --help or --version)\n\n${usage()}`)
  process.exitCode = 2
}
