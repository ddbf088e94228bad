import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { type Binding, bindOperations, declaredError } from '../../src/api/bind.ts'
import { writeGenerated } from '../../src/codegen/generate.ts'
import { ServiceError } from '../../src/errors.ts'
import { asServiceError, sendError } from '../../src/replies/error-replies.ts'

/**
 * A small contract of another service, generated once per test file, with handlers that keep
 * parcels in memory.
 */
const spec = resolve(import.meta.dirname, '../codegen/fixtures/parcels.yaml')
const folder = await mkdtemp(join(tmpdir(), 'parcels-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
await writeGenerated({ spec, server: join(folder, 'server'), client: join(folder, 'client') })
const { operations } = await import(join(folder, 'server/operations.ts'))
const { schemas } = await import(join(folder, 'server/schemas.ts'))

interface Call {
  params: { owner: string; repo: string; number?: string }
  body: { to: string; kind: string; weight?: number; note?: string }
  query: object
}

export interface Answer {
  status: number
  body: object | null
  headers?: Record<string, string | number>
}

/**
 * Creates handlers for all operations. The list returns its parsed query in a header, where tests
 * can see it.
 */
export function parcelHandlers() {
  const parcels = new Map<string, object>()
  return {
    async sendParcel({ params, body }: Call, caller: string): Promise<Answer> {
      const number = parcels.size + 1
      const { to, kind, weight = null, note = null } = body
      const parcel = { number, to, kind, weight, note, depot: params.owner, caller }
      parcels.set(String(number), parcel)
      return { status: 202, body: parcel, headers: { 'X-Parcel-Number': number } }
    },
    async listParcels({ query }: Call): Promise<Answer> {
      const headers = { 'X-Total-Count': parcels.size, Link: encodeURIComponent(JSON.stringify(query)) }
      return { status: 200, body: [...parcels.values()], headers }
    },
    async recallParcel({ params }: Call): Promise<Answer> {
      if (!parcels.delete(params.number ?? '')) throw new ServiceError('commit_unknown', 'no such parcel')
      return { status: 204, body: null }
    },
  }
}

type Change = Partial<Binding<string>> & { handlers?: object }

/** Binds the operations of the small contract to handlers. */
export async function bindParcels(t: Test, { handlers, ...change }: Change = {}): Promise<FastifyInstance> {
  const app = Fastify()
  t.teardown(() => app.close())
  for (const method of app.supportedMethods)
    app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  app.decorate('logError', () => {})
  app.setErrorHandler((error, request, reply) => {
    const operation = operations[request.routeOptions.config.operation ?? '']
    return sendError(reply, declaredError(operation, asServiceError(error)), 'Bearer')
  })
  bindOperations<string>(app, {
    operations,
    schemas,
    calls: { ...parcelHandlers(), ...handlers } as Binding<string>['calls'],
    schemes: ['accessKey'],
    async authorize({ headers }, { access, schemes, anonymous }) {
      if (!anonymous && headers.authorization === undefined) throw new ServiceError('credential_missing')
      return [access, ...schemes].join(' ')
    },
    explain: async (error) => error,
    bodyTimeout: 1_000,
    verifyReplies: true,
    ...change,
  })
  return app
}
