import type { FastifyInstance } from 'fastify'
import { sendError } from '../http/replies.ts'

export interface HealthOptions {
  /** Whether the database answers. @throws StoreUnavailable */
  database(): Promise<void>
  /** Whether git can be run. @throws RepositoryUnavailable */
  git(): Promise<void>
}

/** Milliseconds for which git is taken to be there once it was. */
const GIT_FRESH = 60_000

/**
 * `/healthz`: the process answers. `/readyz`: it can do its work. Nobody needs a token for either, so however many ask
 * at once, one check answers all.
 */
export async function health(app: FastifyInstance, { database, git }: HealthOptions): Promise<void> {
  let gitSeen = Number.NEGATIVE_INFINITY
  const check = shared(async () => {
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

/** Callers that come while `work` is under way get the outcome of that. */
function shared(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
}
