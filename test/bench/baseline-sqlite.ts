import Sqlite from 'better-sqlite3'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { toCommitStatuses } from '../../src/api/handlers.ts'
import type { StatusRow } from '../../src/store/statuses/columns.ts'
import { newId } from '../../src/store/time.ts'
import {
  type Body,
  createBaseline,
  headers,
  listen,
  type Place,
  readHeaders,
  readOptions,
  readUrl,
  reportOptions,
  reportUrl,
  shown,
} from './baseline-routes.ts'

/** argv: database file; JSON of repository ids by name */
const [, , file = '', ids = '{}'] = process.argv
const repositories: Record<string, number> = JSON.parse(ids)
const app = createBaseline()

app.get(`/hello${readUrl}`, (_request, reply) => {
  reply.headers(headers).send('hello')
})

const db = new Sqlite(file)
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL')
const columns = 'id, sha, context, state, description, target_url, created_at, updated_at'
const select = db.prepare<unknown[], StatusRow>(
  `select ${columns} from statuses where repository_id = ? and sha = ? order by context`,
)

const answerOf = ({ repo, sha }: Place['Params']) => toCommitStatuses(select.all(repositories[repo], sha))
const constants = new Map<string, object>()

app.get<Place>(`/constant${readUrl}`, readOptions, ({ params }, reply) => {
  const answer = constants.get(params.sha) ?? answerOf(params)
  constants.set(params.sha, answer)
  reply.headers(readHeaders).send(answer)
})

app.get<Place>(`/select${readUrl}`, readOptions, ({ params }, reply) => {
  reply.headers(readHeaders).send(answerOf(params))
})

const upsert = db.prepare<unknown[], Pick<StatusRow, 'id' | 'created_at' | 'updated_at'>>(
  `insert into statuses (repository_id, sha, context, id, state, description, target_url, created_at, updated_at,
   reporter_id) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
   on conflict (repository_id, sha, context) do update set state = excluded.state, description = excluded.description,
   target_url = excluded.target_url, updated_at = excluded.updated_at, reporter_id = excluded.reporter_id
   returning id, created_at, updated_at`,
)
type Report = Place & { Body: Body }
/** The id of a reporter. */
const REPORTER = 1

function write({ repo, sha }: Place['Params'], body: Body) {
  const { context, state, description, target_url } = body
  const now = Math.floor(Date.now() / 1000)
  const key = [repositories[repo], sha, context]
  const row = upsert.get(...key, newId(), state, description, target_url, now, now, REPORTER)
  return row && shown({ ...body, sha, ...row })
}

app.post<Report>(`/single${reportUrl}`, reportOptions, ({ params, body }, reply) => {
  reply.code(201).headers(headers).send(write(params, body))
})

let waiting: [FastifyRequest<Report>, FastifyReply][] = []
app.post<Report>(`/grouped${reportUrl}`, reportOptions, (request, reply) => {
  if (waiting.push([request, reply]) === 1) {
    setImmediate(() => {
      const group = waiting
      waiting = []
      const rows = db.transaction(() => group.map(([{ params, body }]) => write(params, body)))()
      rows.forEach((row, index) => {
        group[index]?.[1].code(201).headers(headers).send(row)
      })
    })
  }
})

await listen(app)
