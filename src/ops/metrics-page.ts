import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Budget } from '../auth/budget.ts'
import { readAuthorization } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import { headerValues } from '../http/incoming.ts'
import { sendError } from '../replies/error-replies.ts'
import { insteadOf, Unavailable } from '../util/expected-errors.ts'
import type { Metrics } from './metrics.ts'

export interface MetricsPageOptions {
  metrics: Metrics
  /** The token that callers must send. */
  token: string
  budget: Budget
}

/** Characters from which on a token cannot be guessed, whoever chose it. */
const LONG = 32
const bearer = new Map([['bearer', (value: string) => value]])

/**
 * Registers `/metrics` for Prometheus. A wrong token counts as a failed authentication attempt. A
 * long one is compared first, so that the page is served whatever state the database and the
 * caller's budget are in.
 */
export async function metricsPage(app: FastifyInstance, options: MetricsPageOptions): Promise<void> {
  const { metrics, budget } = options
  const expected = digest(options.token)
  const isLong = options.token.length >= LONG
  if (!isLong) app.log.warn(SHORT)

  app.setErrorHandler((error, _request, reply) => sendError(reply, error, 'Bearer realm="metrics"'))
  app.get('/metrics', {
    config: { alwaysServed: true },
    async onRequest(request) {
      const credential = readAuthorization(headerValues(request.raw.rawHeaders, 'authorization'), bearer)
      if (credential.kind === 'none') throw new ServiceError('credential_missing', MISSING)
      const isRight = () => credential.kind === 'value' && timingSafeEqual(digest(credential.value), expected)
      const { address } = request.client
      if (isLong && credential.kind === 'value') {
        if (isRight()) return
        await budget.count(address, { at: 'metrics' }).catch(insteadOf(Unavailable, undefined))
        throw new ServiceError('credential_unknown', WRONG)
      }
      await budget.check(address)
      if (credential.kind === 'bad') {
        if (credential.counts) await budget.count(address, { at: 'metrics' })
        throw new ServiceError(credential.code, WRONG)
      }
      const right = await budget.attempt(
        address,
        async () => isRight() || null,
        () => ({ at: 'metrics' }),
      )
      if (!right) throw new ServiceError('credential_unknown', WRONG)
    },
    async handler(_request, reply) {
      const { type, text } = await metrics.render()
      return reply.header('cache-control', 'no-store').type(type).send(text)
    },
  })
}

const SHORT = `METRICS_TOKEN has fewer than ${LONG} characters, so /metrics is 503 while the database is away`
const MISSING = 'This page requires the metrics token. Send it as "Authorization: Bearer <token>".'
const WRONG = 'The metrics token is wrong. Send the one in METRICS_TOKEN as "Authorization: Bearer <token>".'

/** Hashes a token, so that comparing two of any length takes constant time. */
function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
