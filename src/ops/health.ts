import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../errors.ts'
import { checkGit } from '../git/git-version.ts'
import { sendError } from '../replies/error-replies.ts'
import type { Store } from '../store/store.ts'

/**
 * Milliseconds for which the result of a check is reused: it writes to the database, and anyone may
 * call it.
 */
const INTERVAL = 1_000
/** Milliseconds for which a successful check of git is reused. */
const GIT_MAX_AGE = 60_000

/**
 * Serves `/healthz`: the process is running, and `/readyz`: it can do its work, or which part
 * cannot. Neither takes a token, so the answer has no paths, addresses or messages of the system;
 * these are in the log.
 */
export async function health(
  app: FastifyInstance,
  { store, spool }: { store: Pick<Store, 'ping' | 'repositoryFolders'>; spool: { check(): Promise<void> } },
): Promise<void> {
  let gitCheckedAt = Number.NEGATIVE_INFINITY
  const check = throttle(INTERVAL, async () => {
    await require(store.ping(), 'the database cannot be read or written')
    await require(store.repositoryFolders.check(), 'the folder of repositories is missing or cannot be written')
    await require(spool.check(), 'pushes cannot be received: the disk is full, or DATA_DIR/spool cannot be written')
    if (performance.now() - gitCheckedAt < GIT_MAX_AGE) return
    await require(checkGit(), 'git cannot be run, or is too old')
    gitCheckedAt = performance.now()
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

/** Waits for `part`. @throws ServiceError that names the problem if it rejects */
async function require(part: Promise<void>, problem: string): Promise<void> {
  try {
    await part
  } catch (error) {
    throw new ServiceError('unavailable', `Not ready: ${problem}. The log has the reason.`, { cause: error })
  }
}

/**
 * Runs `work` at most once in so many milliseconds. Calls in between return the outcome of the
 * latest run.
 */
function throttle(milliseconds: number, work: () => Promise<void>): () => Promise<void> {
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
