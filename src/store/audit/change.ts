import type { Transaction } from 'kysely'
import { Refusal } from '../../domain/refusal.ts'
import { ServiceError } from '../../errors.ts'
import type { Engine } from '../engine.ts'
import { hasEnded } from '../session-lifetime.ts'
import type { Queries, Tables } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { runInTransaction } from '../transaction-context.ts'
import type { Actor, AuditEvent, AuditLine, NamedUser } from './audit.ts'
import { recordEvents } from './event-rows.ts'

/**
 * A transaction that changes something, with who does it. Functions that write take one, so none
 * writes without a transaction, or without knowing for whom:
 *
 * ```
 *   audit.transaction(by, work)
 *     └─ begin ─▶ may `by` still act? ─▶ work(change) ─▶ commit ─▶ its events are logged
 *                        │                    │
 *                        └──── no ────────────┴─ throws ──▶ nothing was changed
 * ```
 *
 * Only `audit.transaction` creates one.
 */
class Change {
  /** Everything that the work reads and writes. The connection of the store waits for its end. */
  readonly db: Transaction<Tables>
  /** Who acts. */
  readonly by: Actor
  readonly #lines: AuditLine[]
  readonly #operator: object

  constructor(db: Transaction<Tables>, by: Actor, lines: AuditLine[], operator: object) {
    this.db = db
    this.by = by
    this.#lines = lines
    this.#operator = operator
  }

  /** Stores events of what is done. */
  record(...events: AuditEvent[]): Promise<void> {
    return this.recordOf(this.by, ...events)
  }

  /**
   * Stores events of what somebody else than who acts has done: a user who is being signed in, or
   * who pushed before.
   */
  async recordOf(by: Actor, ...events: AuditEvent[]): Promise<void> {
    this.#lines.push(...(await recordEvents(this.db, by, events, this.#operator)))
  }
}

export type { Change }

/** Runs `work` as one change by somebody who is known. */
export type Transact = <T>(work: (change: Change) => Promise<T>) => Promise<T>

/** Runs actions that are recorded. */
export interface Audit {
  /**
   * Runs `work` in a transaction. Once it has been committed, its events are passed to the server's
   * log.
   *
   * @param by who acts. A session or a token is asked for again in the transaction: what arrives
   * slowly may have lost its right on the way
   * @throws ServiceError `session_ended` or `credential_unknown`, and changes nothing
   */
  transaction<T>(by: Actor, work: (change: Change) => Promise<T>): Promise<T>
}

/**
 * @param onEvent receives each event after it has been committed
 *
 * @param operator see `recordEvents`
 */
export function createAudit({ kysely }: Engine, onEvent?: (line: AuditLine) => void, operator = {}): Audit {
  return {
    async transaction(by, work) {
      const lines: AuditLine[] = []
      const done = await kysely.transaction().execute((db) =>
        runInTransaction(async () => {
          await checkActor(db, by)
          return work(new Change(db, by, lines, operator))
        }),
      )
      for (const line of lines) onEvent?.(line)
      return done
    },
  }
}

/** Checks that the session or the token of who acts is still valid. @throws ServiceError */
async function checkActor(db: Queries, by: Actor): Promise<void> {
  if (by.kind !== 'user') return
  const user = db
    .selectFrom('users')
    .select('users.id')
    .where('users.id', '=', by.user.id)
    .where('users.locked_at', 'is', null)
  if (by.session !== undefined) {
    const session = user
      .innerJoin('sessions', 'sessions.user_id', 'users.id')
      .where('sessions.hash', '=', by.session)
      .where((eb) => eb.not(hasEnded(nowInSeconds())))
    if (!(await session.executeTakeFirst())) throw new ServiceError('session_ended')
  }
  if (by.token !== undefined) {
    const token = user
      .innerJoin('tokens', 'tokens.user_id', 'users.id')
      .where('tokens.id', '=', by.token.id)
      .where((eb) => eb.or([eb('tokens.expires_at', 'is', null), eb('tokens.expires_at', '>', Date.now())]))
    if (!(await token.executeTakeFirst())) throw new ServiceError('credential_unknown')
  }
}

/** Returns a user who was found before. @throws Refusal if the user was deleted since then */
export async function getUserById(db: Queries, id: number): Promise<NamedUser> {
  const user = await db.selectFrom('users').select(['id', 'name']).where('id', '=', id).executeTakeFirst()
  if (!user) throw new Refusal('the user was deleted in the meantime; nothing was changed')
  return user
}
