import type { Tables } from '../../store/tables.ts'

/** Receives the number of rows of a table, or of repositories, that are done, and their total. */
export type OnRows = (what: string, done: number, total: number) => void

/** A table and its primary key, by which its rows are read in batches. */
export interface DurableTable {
  name: string
  key: readonly string[]
  /** The database assigns ids to its rows and must never reuse one. */
  numbered: boolean
}

/** Tables that are not backed up: users sign in again, failure budgets start again, and migrations are in the header. */
type Transient = 'sessions' | 'auth_failures' | 'schema_migrations'

/** Does not compile if a table is missing. */
const keys = {
  users: ['id'],
  repositories: ['id'],
  collaborators: ['repository_id', 'user_id'],
  reporters: ['id'],
  tokens: ['id'],
  audit_events: ['id'],
  branch_rules: ['id'],
  branch_rule_bypasses: ['rule_id', 'user_id'],
  push_intents: ['id'],
  statuses: ['repository_id', 'sha', 'context'],
} as const satisfies { [Table in Exclude<keyof Tables, Transient>]: readonly (keyof Tables[Table])[] }

/** The tables of a backup, in an order in which a table comes after those that its foreign keys refer to. */
export const durableTables: readonly DurableTable[] = Object.entries(keys).map(([name, key]) => ({
  name,
  key,
  numbered: key[0] === 'id' && name !== 'tokens',
}))
