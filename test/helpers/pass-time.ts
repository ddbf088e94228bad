import { sql } from 'kysely'
import type { Store } from '../../src/store/store.ts'

/** Makes the statuses of a context older by whole seconds, as if these had passed since. */
export async function passTime(store: Store, seconds: number, context: string): Promise<void> {
  const shifted = (report: string) => sql`case when ${sql.ref(report)} = updated_at || state
    then cast(updated_at - ${sql.lit(seconds)} as bigint) || state else ${sql.ref(report)} end`
  await sql`update statuses set
      updated_at = updated_at - ${sql.lit(seconds)},
      pending_at = pending_at - ${sql.lit(seconds)},
      run_began_at = run_began_at - ${sql.lit(seconds * 1000)},
      claimed_at = claimed_at - ${sql.lit(seconds * 1000)},
      run_report = ${shifted('run_report')},
      claim_report = ${shifted('claim_report')}
    where context = ${context}`.execute(store.engine.kysely)
}
