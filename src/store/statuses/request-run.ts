import { sql } from 'kysely'
import type { SignedIn } from '../../domain/actors.ts'
import { Refusal } from '../../domain/refusal.ts'
import { namedAs, permittedRepository, type RepositoryName } from '../access/administration.ts'
import { WITHOUT_TOKEN } from '../access/used-tokens.ts'
import type { Change } from '../audit/change.ts'
import { isId, nowInSeconds } from '../time.ts'

/**
 * Asks for another run of a check that a run has claimed: stores a `pending` without a run, as any
 * report without one would be stored, by a reporter without a token. A worker takes it, see
 * `claims.ts`.
 *
 * @param status its commit and id
 * @returns its context
 * @throws ServiceError unless who acts may write; Refusal if no run has ever claimed such a status
 */
export async function requestRun(
  change: Change<SignedIn>,
  repository: RepositoryName,
  { sha, id }: { sha: string; id: string },
): Promise<string> {
  const row = await permittedRepository(change, repository, 'write')
  const { db } = change
  const now = nowInSeconds()
  const status = await db
    .updateTable('statuses')
    .set({
      state: 'pending',
      description: 'Another run was asked for',
      target_url: null,
      updated_at: sql`case when updated_at > ${now} then updated_at else ${now} end`,
      pending_at: now,
      reporter_id: await reporterOf(change),
      run: null,
      run_began_at: null,
      run_report: null,
    })
    .where('repository_id', '=', row.id)
    .where('sha', '=', sha)
    .where('id', '=', isId(id) ? id : '')
    .where('claim_run', 'is not', null)
    .returning('context')
    .executeTakeFirst()
  if (!status) throw new Refusal('no worker has claimed this check. Nothing was changed')
  const { context } = status
  await change.record({ action: 'status.requested', repository: namedAs(row), details: { sha, context } })
  return context
}

/** Returns the reporter that stands for a user without a token. */
async function reporterOf({ db, by: { user } }: Change<SignedIn>): Promise<number> {
  const { id } = await db
    .insertInto('reporters')
    .values({ user_name: user.name, token_id: `${WITHOUT_TOKEN}${user.id}`, token_name: '' })
    // Sets what it is already, since only a row that is written is returned.
    .onConflict((conflict) => conflict.column('token_id').doUpdateSet({ token_name: '' }))
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}
