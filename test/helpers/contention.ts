import assert from 'node:assert/strict'
import type { Test } from 'tap'
import type { AuditLine } from '../../src/store/audit/audit.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from './changes.ts'
import { openTestStore, type TestDatabase } from './databases.ts'
import { listEvents } from './events.ts'

/** How often two servers change the same at once. */
const ROUNDS = 20
export const KIND = { visibility: 'private', objectFormat: 'sha1' } as const

/** Two servers of one database, and how often a test attacks. */
export interface Fixture {
  stores: readonly [Store, Store]
  rounds: number
  /** Returns a name that no other round has. */
  name(): string
}

export async function openTwo(t: Test, database: TestDatabase): Promise<Fixture> {
  const { store, options } = await openTestStore(t, database)
  // In one server, the transactions of a test take turns on SQLite.
  const other = await openStore(options)
  t.teardown(() => other.close())
  let names = 0
  return { stores: [store, other], rounds: ROUNDS, name: () => `n${names++}` }
}

export type Work = (write: ReturnType<typeof asAdministrator>, side: number) => Promise<unknown>

/** Runs the same on both servers at once. Returns what each did; refusals are expected errors. */
export async function attack({ stores }: Fixture, work: Work) {
  const results = await Promise.allSettled(stores.map((store, side) => work(asAdministrator(store), side)))
  for (const result of results)
    if (result.status === 'rejected')
      assert.match(result.reason.name, /^(Refusal|AlreadyExists|ServiceError)$/, result.reason)
  return results
}

export async function winners(fixture: Fixture, work: Work): Promise<number> {
  const results = await attack(fixture, work)
  return results.filter(({ status }) => status === 'fulfilled').length
}

export async function eventsOf({ stores }: Fixture, action: string): Promise<AuditLine[]> {
  return (await listEvents(stores[0])).filter((event) => event.action === action)
}

/** Returns the texts of what each event says was before, and of what the one before it had set. */
export function chain(events: readonly AuditLine[], setBy: (details: AuditLine['details']) => unknown) {
  let last = JSON.stringify(null)
  return events.map(({ details }) => {
    const link = [JSON.stringify(details.from ?? null), last]
    last = JSON.stringify(setBy(details) ?? null)
    return link
  })
}

export const isLinked = ([from, before]: string[]) => from === before
