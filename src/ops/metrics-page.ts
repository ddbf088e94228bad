import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Budget } from '../auth/budget.ts'
import { readAuthorization } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import { headerValues } from '../http/incoming.ts'
import { sendError } from '../replies/error-replies.ts'
import type { Metrics } from './metrics.ts'

export interface MetricsPageOptions {
  metrics: Metrics
  /** The token that callers must send. */
  token: string
  budget: Budget
}

const bearer = new Map([['bearer', (value: string) => value]])

/** Registers `/metrics` for Prometheus. A wrong token counts as a failed authentication attempt. */
export async function metricsPage(app: FastifyInstance, options: MetricsPageOptions): Promise<void> {
  const { metrics, budget } = options
  const expected = digest(options.token)

  app.setErrorHandler((error, _request, reply) => sendError(reply, error, 'Bearer realm="metrics"'))
  app.get('/metrics', {
    config: { alwaysServed: true },
    async onRequest(request) {
      const credential = readAuthorization(headerValues(request.raw.rawHeaders, 'authorization'), bearer)
      if (credential.kind === 'none') throw new ServiceError('credential_missing', MISSING)
      const { address } = request.client
      await budget.check(address)
      if (credential.kind === 'bad') {
        if (credential.counts) await budget.count(address)
        throw new ServiceError(credential.code, WRONG)
      }
      const actual = digest(credential.value)
      const right = await budget.attempt(
        address,
        async () => timingSafeEqual(actual, expected) || null,
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

const MISSING = 'This page requires the metrics token. Send it as "Authorization: Bearer <token>".'
const WRONG = 'The metrics token is wrong. Send the one in METRICS_TOKEN as "Authorization: Bearer <token>".'

/** Hashes a token, so that comparing two of any length takes constant time. */
function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
