import './runtime.ts'
import { buildApp } from './app.ts'
import { ConfigError, readConfig, variables } from './config.ts'
import { openCommitLookup } from './git/commit-lookup.ts'
import { checkGit, GitTooOld } from './git/git-version.ts'
import { createLogger } from './ops/logger.ts'
import { stopServing } from './ops/stop.ts'
import { adminCommand } from './runtime.ts'
import { StoreUnavailable } from './store/engine.ts'
import { findExposed } from './store/exposed-files.ts'
import { openStore, type Store } from './store/store.ts'

const usage = `The commit status server takes no arguments. Environment variables say how it is run:
  ${variables.join('\n  ')}
It is administered by: ${adminCommand} --help`

// What is created here, also by git, is for this account alone.
process.umask(0o077)

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  const logger = createLogger(config.logLevel)
  const gitChecked = checkGit().catch((error: unknown) => error)
  const store = await openStore(config).catch((error: unknown) => {
    throw startFault(config.databaseUrl ? 'DATABASE_URL' : 'DATA_DIR', error)
  })
  const gitFault = await gitChecked
  if (gitFault instanceof GitTooOld) throw gitFault
  // Without git, `/readyz` answers 503 until it is there.
  if (gitFault) logger.error({ err: gitFault }, 'commits cannot be looked up')
  await hintAtFirstUser(store, logger)
  const exposed = await findExposed(config.dataDir)
  if (exposed)
    logger.warn(
      exposed,
      `Other accounts of this machine can open files of the server. Run: ${exposed.command}`,
    )
  const lookup = openCommitLookup()
  const { host, port, budget, git, trustedProxies, publicUrl, metricsToken } = config
  const app = await buildApp({ store, lookup, logger, budget, git, trustedProxies, publicUrl, metricsToken })

  const hurry = new AbortController()
  let stopping: Promise<void> | undefined
  const stop = async (signal: string) => {
    logger.info({ signal }, 'stopping')
    await stopServing(app, hurry.signal)
    await lookup.close()
    await store.close()
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      // Who asks a second time does not want to wait for what is under way.
      if (stopping) hurry.abort()
      stopping ??= stop(signal).catch(fail)
    })
  }

  await app.listen({ host, port, listenTextResolver: () => 'listening' }).catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    throw startFault(code === 'EADDRINUSE' || code === 'EACCES' ? 'PORT' : 'HOST', error)
  })
  const address = app.server.address()
  const listening = typeof address === 'object' && address ? address.port : port
  process.stdout.write(`Listening on http://${host.includes(':') ? `[${host}]` : host}:${listening}\n`)
}

/** What a variable names cannot be had: said by the variable's name. Any other error is a mistake of ours, and stays. */
function startFault(variable: string, error: unknown): unknown {
  const fromOutside = error instanceof StoreUnavailable || (error instanceof Error && 'syscall' in error)
  return fromOutside ? new ConfigError(`${variable}: ${error.message}`, { cause: error }) : error
}

async function hintAtFirstUser(store: Store, logger: { info(text: string): void }): Promise<void> {
  if (await store.users.any()) return
  logger.info(
    `There are no users yet. Create the first one: ${adminCommand} user create NAME --password-stdin`,
  )
}

function fail(error: unknown): never {
  const isExpected =
    error instanceof ConfigError || error instanceof StoreUnavailable || error instanceof GitTooOld
  const text =
    error instanceof Error && !isExpected ? error.stack : String(isExpected ? error.message : error)
  process.stderr.write(`${text}\n`)
  process.exit(1)
}

const [, , ...args] = process.argv
if (args.length === 0) serve().catch(fail)
else {
  const asked = args[0] === '--help' || args[0] === '-h'
  const output = asked ? process.stdout : process.stderr
  output.write(`${usage}\n`)
  process.exitCode = asked ? 0 : 2
}
