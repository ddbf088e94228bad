import { sql } from 'kysely'
import type { Store } from '../../src/store/store.ts'

/** Makes the statuses of a context or a commit older by whole seconds, as if these had passed since. */
export async function passTime(
  store: Store,
  seconds: number,
  of: { context: string } | { sha: string },
): Promise<void> {
  const letters = 'abcdefghijklmnopqrstuvwxyz'
  const shifted = (report: string) =>
    sql`(cast(rtrim(${sql.ref(report)}, ${sql.lit(letters)}) as bigint) - ${sql.lit(seconds)})
      || ltrim(${sql.ref(report)}, '0123456789')`
  await sql`update statuses set
      updated_at = updated_at - ${sql.lit(seconds)},
      pending_at = pending_at - ${sql.lit(seconds)},
      run_began_at = run_began_at - ${sql.lit(seconds * 1000)},
      claimed_at = claimed_at - ${sql.lit(seconds * 1000)},
      run_report = ${shifted('run_report')},
      claim_report = ${shifted('claim_report')}
    where ${sql.ref(Object.keys(of)[0] ?? '')} = ${Object.values(of)[0]}`.execute(store.engine.kysely)
}
