import { join } from 'node:path'
import { Pool, types } from 'pg'
import { toCommitStatuses, toStatus } from '../../src/api/handlers.ts'
import { buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import type { Prepared } from '../../src/store/prepared.ts'
import { fieldsOf, type ReportedFields } from '../../src/store/statuses/columns.ts'
import { createStore, openEngine } from '../../src/store/store.ts'
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

/**
 * Answers each request with the same `pg` calls as our server, one after the other. To learn them,
 * it records the queries of one read and one report of our server at startup.
 *
 * argv: JSON of a Sample
 */
interface Sample {
  dataDir: string
  databaseUrl: string
  token: string
  readPath: string
  reportPath: string
  body: ReportedFields
}

interface Call {
  sql: string
  /** Returns the values of the recorded call, with `values` in place of the recorded ones. */
  bind(values: object): unknown[]
}

const sample: Sample = JSON.parse(process.argv[2] ?? '')
const { databaseUrl } = sample
const authorization = `Bearer ${sample.token}`
const calls = await record()
const INT8 = 20
const pool = new Pool({
  connectionString: databaseUrl,
  max: 10,
  types: { getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)) },
})
const statements = [...new Set([...calls.read, ...calls.report].map(({ sql }) => sql))]
const names = new Map(statements.map((sql, index) => [sql, `s${index}`]))

async function record(): Promise<{ read: Call[]; report: Call[] }> {
  const engine = await openEngine({ dataDir: sample.dataDir, databaseUrl, poolSize: 1 })
  let recorded: Call[] = []
  const note = <Params, Row>({ sql, bind }: Prepared<Params, Row>, params: Params) => {
    recorded.push({ sql, bind: (values) => bind({ ...params, ...values }) })
  }
  const store = createStore(
    {
      ...engine,
      read(query, params) {
        note(query, params)
        return engine.read(query, params)
      },
      write(query, params, ...rest) {
        note(query, params)
        return engine.write(query, params, ...rest)
      },
    },
    join(sample.dataDir, 'repositories'),
  )
  const lookup = new CommitLookup()
  const app = await buildApp({ store, lookup, spool: await openSpool(sample.dataDir, 0) })
  const of = async (method: 'GET' | 'POST', url: string, payload?: ReportedFields) => {
    recorded = []
    const answer = await app.inject({ method, url, headers: { authorization }, ...(payload && { payload }) })
    if (answer.statusCode >= 300) throw new Error(`${method} ${url}: ${answer.statusCode} ${answer.body}`)
    return recorded
  }
  try {
    // Later reports replace this one.
    await of('POST', sample.reportPath, sample.body)
    return {
      read: await of('GET', sample.readPath),
      report: await of('POST', sample.reportPath, sample.body),
    }
  } finally {
    await app.close()
    await lookup.close()
    await store.close()
  }
}

/** Runs the calls in order. @returns the rows of the last one */
async function ask(recorded: Call[], values: object) {
  let rows = []
  for (const { sql, bind } of recorded)
    ({ rows } = await pool.query({ name: names.get(sql) ?? '', text: sql, values: bind(values) }))
  return rows
}

const app = createBaseline()
app.get<Place>(readUrl, readOptions, async ({ params }, reply) => {
  reply.headers(readHeaders)
  return toCommitStatuses(await ask(calls.read, { sha: params.sha }))
})
app.post<Place & { Body: ReportedFields }>(reportUrl, reportOptions, async ({ params, body }, reply) => {
  const now = Math.floor(Date.now() / 1000)
  const fields = { sha: params.sha, ...fieldsOf(body) }
  // The time by which the recorded report had to be stored has passed.
  const decided = { id: newId(), created_at: now, updated_at: now, stored_by: null }
  const [row] = await ask(calls.report, { ...fields, ...decided })
  reply.code(201).headers(headers)
  // The database returns only the columns that the request does not contain.
  return toStatus({ ...fields, ...row })
})
await listen(app)
