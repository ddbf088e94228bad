import './runtime.ts'
import { pino } from 'pino'
import { buildApp } from './app.ts'
import { ConfigError, readConfig } from './config.ts'
import { openCommitLookup } from './git/commit-lookup.ts'
import { openStore, type Store } from './store/store.ts'

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  const logger = pino({ level: config.logLevel, redact: redacted })
  const store = await openStore(config)
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

  await app.listen({ host, port, listenTextResolver: () => 'listening' })
  const address = app.server.address()
  const listening = typeof address === 'object' && address ? address.port : port
  process.stdout.write(`Listening on http://${host.includes(':') ? `[${host}]` : host}:${listening}\n`)
}

const redacted = ['authorization', '*.authorization', '*.*.authorization', '*.*.*.authorization']

async function hintAtFirstUser(store: Store, logger: { info(text: string): void }): Promise<void> {
  if (await store.users.any()) return
  logger.info(
    'There are no users yet. Create the first one: npm run --silent cli -- user create NAME --password-stdin',
  )
}

serve().catch((error: unknown) => {
  const text =
    error instanceof ConfigError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`${text}\n`)
  process.exit(1)
})
