import Sqlite from 'better-sqlite3'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { toCommitStatuses, toStatus } from '../../src/api/handlers.ts'
import {
  answeredColumns,
  type DecidedFields,
  decidedColumns,
  fieldsOf,
  givenColumns,
  type ReportedFields,
  replacedColumns,
  type StatusRow,
} from '../../src/store/statuses/columns.ts'
import { newId } from '../../src/store/time.ts'
import {
  createBaseline,
  headers,
  listen,
  type Place,
  readHeaders,
  readOptions,
  readUrl,
  reportOptions,
  reportUrl,
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
const select = db.prepare<unknown[], StatusRow>(
  `select ${answeredColumns.join(', ')} from statuses where repository_id = ? and sha = ? order by context`,
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

const replaced = [...replacedColumns, 'updated_at'].map((name) => `${name} = excluded.${name}`)
const upsert = db.prepare<unknown[], DecidedFields>(
  `insert into statuses (${givenColumns.join(', ')}) values (${givenColumns.map(() => '?').join(', ')})
   on conflict (repository_id, sha, context) do update set ${replaced.join(', ')}
   returning ${decidedColumns.join(', ')}`,
)
type Report = Place & { Body: ReportedFields }
/** The id of a reporter. */
const REPORTER = 1

function write({ repo, sha }: Place['Params'], body: ReportedFields) {
  const fields = { sha, ...fieldsOf(body) }
  const now = Math.floor(Date.now() / 1000)
  const values = {
    ...fields,
    repository_id: repositories[repo],
    id: newId(),
    created_at: now,
    updated_at: now,
    reporter_id: REPORTER,
    run: null,
    claim_seconds: null,
  }
  const row = upsert.get(givenColumns.map((name) => values[name]))
  return row && toStatus({ ...fields, ...row })
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
