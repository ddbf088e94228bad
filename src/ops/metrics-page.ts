import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Budget } from '../auth/budget.ts'
import { readAuthorization } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import { sendError } from '../hooks/error-replies.ts'
import { headerValues } from '../http/header-values.ts'
import type { Metrics } from './metrics.ts'

export interface MetricsPageOptions {
  metrics: Metrics
  /** What a caller has to show. */
  token: string
  budget: Budget
}

const bearer = new Map([['bearer', (value: string) => value]])

/** `/metrics` for Prometheus. A wrong token counts as a failed authentication attempt. */
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
      const right = await budget.attempt(address, async () => timingSafeEqual(actual, expected) || null)
      if (!right) throw new ServiceError('credential_unknown', WRONG)
    },
    async handler(_request, reply) {
      const { type, text } = await metrics.render()
      return reply.header('cache-control', 'no-store').type(type).send(text)
    },
  })
}

const MISSING = 'Send the metrics token as "Authorization: Bearer <token>".'
const WRONG = 'This is not the metrics token. Send it as "Authorization: Bearer <token>".'

/** Of the same length for every token, so that comparing two takes the same time whatever they are. */
function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
