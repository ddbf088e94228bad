import { type FastifyInstance, fastify, type RouteShorthandOptions } from 'fastify'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'

/**
 * Creates a Fastify server for the contract's two routes that does less: no validation,
 * authentication, access rules or git. Methods, path shapes, headers and bytes equal ours; rows
 * become answers as in ours.
 */
export function createBaseline(): FastifyInstance {
  const app = fastify({ exposeHeadRoutes: false })
  for (const schema of Object.values(schemas)) app.addSchema(schema)
  return app
}

/** Routes of the read and the report, with the response schemas that serialize the answers. */
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

/** Listens on a free port and prints the URL. */
export async function listen(app: FastifyInstance): Promise<void> {
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  process.stdout.write(`Listening on ${address}\n`)
  process.once('SIGTERM', () => process.exit(0))
}
