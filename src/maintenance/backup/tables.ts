import { primaryKeys, type Tables } from '../../store/tables.ts'

/** Receives the number of rows of a table, or of repositories, that are done, and their total. */
export type OnRows = (what: string, done: number, total: number) => void

/** A table and its primary key, by which its rows are read in batches. */
export interface DurableTable {
  name: string
  key: readonly string[]
  /** The database assigns ids to its rows and must never reuse one. */
  numbered: boolean
}

/**
 * Tables that are not backed up: users sign in again, failure budgets start again, and migrations
 * are in the header.
 */
const TRANSIENT: readonly string[] = [
  'sessions',
  'auth_failures',
  'schema_migrations',
] satisfies (keyof Tables)[]

/**
 * The tables of a backup, in an order in which a table comes after those that its foreign keys
 * refer to.
 */
export const durableTables: readonly DurableTable[] = Object.entries(primaryKeys)
  .filter(([name]) => !TRANSIENT.includes(name))
  .map(([name, primaryKey]) => ({ name, ...primaryKey }))
