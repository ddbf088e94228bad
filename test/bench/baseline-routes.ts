import { type FastifyInstance, fastify, type RouteShorthandOptions } from 'fastify'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import type { StatusRow } from '../../src/store/statuses.ts'
import type { StatusState } from '../../src/store/tables.ts'
import { formatTime } from '../../src/store/time.ts'

/**
 * The contract's two routes as a Fastify server can have them at best that does less: no validation, no authentication,
 * no git, no access rule. The same methods, path shapes and headers as ours, and the same bytes.
 */
export function createBaseline(): FastifyInstance {
  const app = fastify({ exposeHeadRoutes: false })
  for (const schema of Object.values(schemas)) app.addSchema(schema)
  return app
}

/** Statuses are read here, and reported there: URLs and the response schemas that serialize the answers. */
export const readUrl = operations.listStatuses.url
export const readOptions: RouteShorthandOptions = {
  schema: { response: { 200: operations.listStatuses.replies[200] } },
}
export const reportUrl = operations.reportStatus.url
export const reportOptions: RouteShorthandOptions = {
  schema: { response: { 201: operations.reportStatus.replies[201] } },
}

export const headers = {
  vary: 'Authorization',
  'cache-control': 'private, no-cache',
  'x-request-id': 'baseline-0',
}
export const readHeaders = { ...headers, etag: 'W/"3xWn1Qm0uYk5c1c3Jb2k0gAAAAA"' }

export interface Place {
  Params: { owner: string; repo: string; sha: string }
}
export interface Body {
  context: string
  state: StatusState
  description: string
  target_url: string
}

/** A row as it is answered. */
export function shown(row: StatusRow) {
  return { ...row, created_at: formatTime(row.created_at), updated_at: formatTime(row.updated_at) }
}

/** Listens and prints where. */
export async function listen(app: FastifyInstance): Promise<void> {
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  process.stdout.write(`Listening on ${address}\n`)
  process.once('SIGTERM', () => process.exit(0))
}
