import Sqlite from 'better-sqlite3'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { v7 as uuidv7 } from 'uuid'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'

/**
 * What a Fastify server can do at best that does less: no validation, no authentication, no git, no access rule. The
 * same methods, path shapes and headers as ours, and the same bytes.
 *
 * argv: database file, and a JSON object { kind: body } of constant answers
 */
const [, , file = '', constants = '{}'] = process.argv
const answers: Record<string, object> = JSON.parse(constants)
const app = Fastify({ exposeHeadRoutes: false })
for (const schema of Object.values(schemas)) app.addSchema(schema)

const { url: readUrl, replies: readReplies } = operations.listStatuses
const { url: reportUrl, replies: reportReplies } = operations.reportStatus
const headers = {
  vary: 'Authorization',
  'cache-control': 'private, no-cache',
  'x-request-id': 'baseline-0',
}
const read = { schema: { response: { 200: readReplies[200] } } }
const report = { schema: { response: { 201: reportReplies[201] } } }

type Params = { Params: { owner: string; repo: string; sha: string } }

app.get(`/hello${readUrl}`, (_request, reply) => {
  reply.headers(headers).send('hello')
})

app.get<Params>(`/constant${readUrl}`, read, (request, reply) => {
  reply.headers({ ...headers, etag: 'W/"3xWn1Qm0uYk5c1c3Jb2k0gAAAAA"' }).send(answers[request.params.repo])
})

const db = new Sqlite(file)
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL')
const select = db.prepare(
  `select id, sha, context, state, description, target_url, created_at, updated_at from statuses
   where repository_id = ? and sha = ? order by context`,
)
interface Row {
  state: string
  created_at: number
  updated_at: number
}
const time = (seconds: number) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
const shown = <R extends Row>(row: R) => ({
  ...row,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
})

app.get<Params>(`/select${readUrl}`, read, (request, reply) => {
  const rows = select.all(1, request.params.sha).map((row) => shown(Object(row)))
  const state = rows.some((row) => row.state === 'failure' || row.state === 'error') ? 'failure' : 'success'
  reply.headers({ ...headers, etag: 'W/"3xWn1Qm0uYk5c1c3Jb2k0gAAAAA"' }).send({ state, statuses: rows })
})

db.exec(`create table if not exists baseline (repository_id integer, sha text, context text, id text, state text,
  description text, target_url text, created_at integer, updated_at integer,
  primary key (repository_id, sha, context)) without rowid`)
const upsert = db.prepare(
  `insert into baseline (repository_id, sha, context, id, state, description, target_url, created_at, updated_at)
   values (1, ?, ?, ?, ?, ?, ?, ?, ?)
   on conflict (repository_id, sha, context) do update set state = excluded.state, description = excluded.description,
   target_url = excluded.target_url, updated_at = excluded.updated_at
   returning id, sha, context, state, description, target_url, created_at, updated_at`,
)
type Report = { context: string; state: string; description?: string; target_url?: string }
const write = (sha: string, body: Report) => {
  const now = Math.floor(Date.now() / 1000)
  const { context, state, description = null, target_url = null } = body
  return shown(Object(upsert.get(sha, context, uuidv7(), state, description, target_url, now, now)))
}

app.post<Params & { Body: Report }>(`/single${reportUrl}`, report, (request, reply) => {
  reply.code(201).headers(headers).send(write(request.params.sha, request.body))
})

let waiting: [FastifyRequest<Params & { Body: Report }>, FastifyReply][] = []
app.post<Params & { Body: Report }>(`/grouped${reportUrl}`, report, (request, reply) => {
  if (waiting.push([request, reply]) === 1) {
    setImmediate(() => {
      const group = waiting
      waiting = []
      const rows = db.transaction(() => group.map(([{ params, body }]) => write(params.sha, body)))()
      rows.forEach((row, index) => {
        group[index]?.[1].code(201).headers(headers).send(row)
      })
    })
  }
})

const address = await app.listen({ host: '127.0.0.1', port: 0 })
process.stdout.write(`Listening on ${address}\n`)
process.once('SIGTERM', () => process.exit(0))
