import './runtime.ts'
import { pino } from 'pino'
import { buildApp } from './app.ts'
import { ConfigError, readConfig } from './config.ts'
import { openCommitLookup } from './git/commit-lookup.ts'
import { StoreUnavailable } from './store/engine.ts'
import { openStore, type Store } from './store/store.ts'

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  const logger = pino({ level: config.logLevel, redact: redacted })
  const store = await openStore(config).catch((error: unknown) => {
    throw startFault(config.databaseUrl ? 'DATABASE_URL' : 'DATA_DIR', error)
  })
  await hintAtFirstUser(store, logger)
  const lookup = openCommitLookup()
  const { host, port, budget, git, trustedProxies, publicUrl } = config
  const app = await buildApp({ store, lookup, logger, budget, git, trustedProxies, publicUrl })

  let stopping = false
  const stop = async (signal: string) => {
    if (stopping) return
    stopping = true
    logger.info({ signal }, 'stopping')
    await app.close()
    await lookup.close()
    await store.close()
  }
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop)

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

const redacted = ['authorization', '*.authorization', '*.*.authorization', '*.*.*.authorization']

async function hintAtFirstUser(store: Store, logger: { info(text: string): void }): Promise<void> {
  if (await store.users.any()) return
  logger.info(
    'There are no users yet. Create the first one: npm run --silent cli -- user create NAME --password-stdin',
  )
}

serve().catch((error: unknown) => {
  const isExpected = error instanceof ConfigError || error instanceof StoreUnavailable
  const text =
    error instanceof Error && !isExpected ? error.stack : String(isExpected ? error.message : error)
  process.stderr.write(`${text}\n`)
  process.exit(1)
})
