import { type Kysely, type RawBuilder, sql } from 'kysely'
import { schemas } from '../../generated/schemas.ts'
import { readDetails } from '../store/audit.ts'
import type { Engine } from '../store/engine.ts'
import { readPatterns } from '../store/patterns.ts'
import type { Tables } from '../store/tables.ts'
import { commitIdLength } from '../util/commit-id.ts'
import { attempt, messageOf, readableRows } from './readable-rows.ts'
import { countRows, keyedTables, type OnRows, type Row } from './rows.ts'

/** Rows read at a time. */
const BATCH = 1_000

/**
 * References: the column of each table, and the table that it refers to. An orphaned row is useless, except where
 * only the reference is lost: `clears`.
 */
const REFERENCES: readonly Reference[] = [
  { table: 'collaborators', column: 'repository_id', parents: 'repositories' },
  { table: 'collaborators', column: 'user_id', parents: 'users' },
  { table: 'tokens', column: 'user_id', parents: 'users' },
  { table: 'sessions', column: 'user_id', parents: 'users' },
  { table: 'branch_rules', column: 'repository_id', parents: 'repositories' },
  { table: 'branch_rule_bypasses', column: 'rule_id', parents: 'branch_rules' },
  { table: 'branch_rule_bypasses', column: 'user_id', parents: 'users' },
  { table: 'statuses', column: 'repository_id', parents: 'repositories' },
  { table: 'tokens', column: 'reporter_id', parents: 'reporters', clears: true },
  { table: 'statuses', column: 'reporter_id', parents: 'reporters', clears: true },
]

interface Reference {
  table: keyof Tables
  column: string
  parents: keyof Tables
  clears?: boolean
}

const STATES = new Set<unknown>(schemas.State.enum)

/** The result of an integrity check. */
interface IntegrityResult {
  /** One sentence for each problem. */
  findings: string[]
  /** Whether some rows cannot be read. */
  damaged: boolean
}

/**
 * Reads every row in one snapshot. Reports rows that cannot be read, rows that refer to a missing one, and statuses that
 * break the rules. Continues after rows that cannot be read.
 */
export async function checkIntegrity({ kysely }: Engine, onRows: OnRows): Promise<IntegrityResult> {
  let complete = false
  const found: IntegrityResult = { findings: [], damaged: false }
  try {
    await kysely
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute(async (db) => {
        await readAll(db, found, onRows)
        complete = true
      })
  } catch (error) {
    // SQLite refuses to commit after it has read a damaged page. Nothing was written.
    if (!complete) throw error
  }
  return found
}

async function readAll(db: Kysely<Tables>, found: IntegrityResult, onRows: OnRows): Promise<void> {
  const damage = (text: string) => {
    found.damaged = true
    found.findings.push(text)
  }
  /** Returns undefined if the query fails. */
  const tryTo = <T>(what: string, query: () => Promise<T>): Promise<T | undefined> =>
    attempt(db, query).catch((error: unknown) => {
      damage(`cannot ${what}: ${messageOf(error)}`)
      return undefined
    })

  for (const reference of REFERENCES) {
    const { table, column } = reference
    const orphans = await tryTo(`look for orphaned rows in ${table} by ${column}`, () =>
      findOrphans(db, reference),
    )
    found.findings.push(...(orphans ?? []))
  }
  const lengths = await tryTo('read the object formats of repositories', () => idLengths(db))
  for (const table of keyedTables) {
    const total = await tryTo(`count the rows of ${table.name}`, () => countRows(db, table))
    let done = 0
    for await (const rows of readableRows(db, table, BATCH, damage)) {
      if (table.name === 'statuses')
        found.findings.push(...rows.flatMap((row) => statusFindings(row, lengths)))
      if (table.name === 'tokens') found.findings.push(...rows.flatMap(tokenFindings))
      if (table.name === 'branch_rules') found.findings.push(...rows.flatMap(ruleFindings))
      if (table.name === 'audit_events') found.findings.push(...rows.flatMap(eventFindings))
      done += rows.length
      onRows(table.name, done, total)
    }
  }
}

/**
 * Removes rows that refer to a missing row, or only the reference where the row is of use without it.
 *
 * @returns one sentence for each problem that this solved
 */
export async function removeOrphans({ kysely }: Engine): Promise<string[]> {
  return kysely.transaction().execute(async (db) => {
    const found: string[] = []
    for (const reference of REFERENCES) {
      const orphans = await findOrphans(db, reference)
      if (orphans.length === 0) continue
      const { table, column, clears = false } = reference
      const remove = clears
        ? sql`update ${sql.table(table)} set ${sql.ref(column)} = null`
        : sql`delete from ${sql.table(table)}`
      await sql`${remove} where ${isOrphaned(reference)}`.execute(db)
      found.push(...orphans.map((text) => (clears ? `${text} (reference cleared, rows kept)` : text)))
    }
    return found
  })
}

function isOrphaned({ column, parents }: Reference): RawBuilder<boolean> {
  // Without the first condition, null would not be in an empty table.
  return sql`${sql.ref(column)} is not null and ${sql.ref(column)} not in (select id from ${sql.table(parents)})`
}

async function findOrphans(db: Kysely<Tables>, reference: Reference): Promise<string[]> {
  const { table, column, parents } = reference
  const { rows } = await sql<{ parent: number; rows: number }>`
    select ${sql.ref(column)} as parent, count(*) as rows from ${sql.table(table)}
    where ${isOrphaned(reference)}
    group by ${sql.ref(column)} order by ${sql.ref(column)}`.execute(db)
  return rows.map(
    ({ parent, rows }) => `${table}: ${column} ${parent} does not exist in ${parents} (rows: ${rows})`,
  )
}

/** Returns the length of commit ids by repository. */
async function idLengths(db: Kysely<Tables>): Promise<Map<unknown, number>> {
  const formats = await db.selectFrom('repositories').select(['id', 'object_format']).execute()
  return new Map(formats.map(({ id, object_format }) => [id, commitIdLength(object_format)]))
}

/** Returns what is wrong with a stored status by the rules for reports (openapi.yaml). */
function statusFindings(row: Row, lengths: Map<unknown, number> | undefined): string[] {
  const { repository_id, sha, context, state, created_at, updated_at } = row
  const length = lengths?.get(repository_id)
  const wrong: string[] = []
  if (!/^[0-9a-f]+$/.test(String(sha)) || (length !== undefined && String(sha).length !== length))
    wrong.push('its sha is not a full commit id')
  if (!STATES.has(state)) wrong.push(`its state is "${state}"`)
  if (context === '') wrong.push('its context is empty')
  if (Number(created_at) > Number(updated_at)) wrong.push('it was updated before it was created')
  return wrong.map((what) => `status ${JSON.stringify([repository_id, sha, context])}: ${what}`)
}

/** Returns what is wrong with the limits of a token. Limits that cannot be read allow nothing. */
function tokenFindings({ id, repositories, contexts }: Row): string[] {
  const readable =
    (repositories === null || /^ (?:\d+ )*$/.test(String(repositories))) &&
    (contexts === null || readPatterns(String(contexts)) !== null)
  return readable ? [] : [`token ${id}: its limits cannot be read; revoke it, and create another one`]
}

/** Returns what is wrong with a stored branch rule. A rule that cannot be read refuses every push to its branches. */
function ruleFindings({ repository_id, branch_pattern, required }: Row): string[] {
  if (readPatterns(String(required)) !== null) return []
  return [
    `branch rule ${JSON.stringify([repository_id, branch_pattern])}: its required patterns cannot be read; set the rule again`,
  ]
}

/** Returns what is wrong with an event of the audit log. It is listed without its details. */
function eventFindings({ id, details }: Row): string[] {
  return readDetails(String(details)) === null ? [`audit event ${id}: its details cannot be read`] : []
}
