import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Administrator, Server } from '../domain/actors.ts'
import type { Transact } from './audit/change.ts'
import { DELETE_STEP } from './steps.ts'

/** Rows of one parent, and the column that orders them. Rows with equal values stay together. */
type Children =
  | { table: 'statuses'; parent: 'repository_id'; order: 'sha' }
  | { table: 'branch_moves'; parent: 'repository_id'; order: 'ref' }
  | { table: 'collaborators'; parent: 'user_id'; order: 'repository_id' }
  | { table: 'sessions'; parent: 'user_id'; order: 'hash' }

/**
 * Deletes most rows that refer to a row which is about to be deleted: with all of them at once, that
 * would keep others from writing for too long. Pauses after each step for as long as it took.
 * Deletes nothing if there are few.
 *
 * @returns how many
 */
export async function deleteMostChildren<By extends Administrator | Server>(
  transact: Transact<By>,
  children: Children,
  id: number,
): Promise<number> {
  const [table, parent, order] = [children.table, children.parent, children.order].map((name) =>
    sql.ref(name),
  )
  for (let deleted = 0; ; ) {
    const began = performance.now()
    const count = await transact(async ({ db }) => {
      const { rows } = await sql<{ last: string | number }>`select ${order} as last from ${table}
        where ${parent} = ${id} order by ${order} limit 1 offset ${DELETE_STEP}`.execute(db)
      const [step] = rows
      if (!step) return 0
      const { numAffectedRows } =
        await sql`delete from ${table} where ${parent} = ${id} and ${order} <= ${step.last}`.execute(db)
      return Number(numAffectedRows)
    })
    if (count === 0) return deleted
    deleted += count
    await setTimeout(performance.now() - began)
  }
}
