import type { FastifyInstance } from 'fastify'
import { sendError } from '../hooks/error-replies.ts'

export interface HealthOptions {
  /** Whether the database answers and stores what it is given. @throws StoreUnavailable */
  database(): Promise<void>
  /** Whether git can be run. @throws RepositoryUnavailable */
  git(): Promise<void>
}

/** Milliseconds for which one check answers all that ask: it writes to the database, and anybody may ask. */
const FRESH = 1_000
/** Milliseconds for which git is taken to be there once it was. */
const GIT_FRESH = 60_000

/** `/healthz`: the process answers. `/readyz`: it can do its work. Nobody needs a token for either. */
export async function health(app: FastifyInstance, { database, git }: HealthOptions): Promise<void> {
  let gitSeen = Number.NEGATIVE_INFINITY
  const check = atMostEvery(FRESH, async () => {
    await database()
    if (performance.now() - gitSeen < GIT_FRESH) return
    await git()
    gitSeen = performance.now()
  })

  app.setErrorHandler((error, _request, reply) => sendError(reply, error, ''))
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store')
    done()
  })
  app.get('/healthz', { config: { alwaysServed: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', async () => {
    await check()
    return { status: 'ready' }
  })
}

/** Runs `work` at most once in so many milliseconds: callers in between get the outcome of the latest run. */
function atMostEvery(milliseconds: number, work: () => Promise<void>): () => Promise<void> {
  let startedAt = Number.NEGATIVE_INFINITY
  let running = false
  let latest = Promise.resolve()
  return () => {
    if (!running && performance.now() - startedAt >= milliseconds) {
      startedAt = performance.now()
      running = true
      latest = work().finally(() => {
        running = false
      })
    }
    return latest
  }
}
