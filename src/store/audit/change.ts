import type { SelectQueryBuilder, Transaction } from 'kysely'
import type { Actor, Author, Server, SignedIn, SigningIn, TokenHolder } from '../../domain/actors.ts'
import { ServiceError } from '../../errors.ts'
import type { Engine } from '../engine.ts'
import { hasEnded } from '../session-lifetime.ts'
import type { Tables } from '../tables.ts'
import { nowInSeconds, type Seconds } from '../time.ts'
import { checkToken, signInDue } from '../token-validity.ts'
import { runInTransaction } from '../transaction-context.ts'
import type { AuditEvent, AuditLine } from './audit.ts'
import { recordEvents, replaceDetails } from './event-rows.ts'

/** Who records events of what is done. */
type Recorded = Exclude<Actor, Server>

/**
 * A transaction that changes something, with who does it. Functions that write take one, so none
 * writes without a transaction, or without knowing for whom. `By` is who may: what only
 * administrators do takes a `Change<Administrator>`.
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
class Change<By extends Actor = Recorded> {
  /** Everything that the work reads and writes. The connection of the store waits for its end. */
  readonly db: Transaction<Tables>
  /** Who acts. */
  readonly by: By
  readonly #lines: AuditLine[]
  readonly #operator: object | undefined
  readonly #hasLocks: boolean

  constructor(
    db: Transaction<Tables>,
    by: By,
    lines: AuditLine[],
    operator: object | undefined,
    hasLocks: boolean,
  ) {
    this.db = db
    this.by = by
    this.#lines = lines
    this.#operator = operator
    this.#hasLocks = hasLocks
  }

  /**
   * Returns a query that locks its rows until the end of the change; see `access/locked-rows.ts`.
   *
   * @param strength what others cannot do meanwhile: change the rows; also refer to them, if they
   * are about to be deleted; or only delete them
   */
  locked<DB, TB extends keyof DB, O>(
    query: SelectQueryBuilder<DB, TB, O>,
    strength: 'no key update' | 'update' | 'key share' = 'no key update',
  ): SelectQueryBuilder<DB, TB, O> {
    if (!this.#hasLocks) return query
    if (strength === 'update') return query.forUpdate()
    return strength === 'key share' ? query.forKeyShare() : query.forNoKeyUpdate()
  }

  /** Stores events of what is done. */
  record(this: Change<Recorded>, ...events: AuditEvent[]): Promise<void> {
    return this.recordOf(this.by, ...events)
  }

  /**
   * Stores an event of what several changes do, each of which counts on: the first one inserts it,
   * and the others replace its details. The first one needs the right to do that, too, so that none
   * fails half-way.
   *
   * @param id what the change before returned
   * @returns the id of the event
   */
  async recordSoFar(this: Change<Recorded>, id: number | undefined, event: AuditEvent): Promise<number> {
    // No event has the id 0.
    const known = id ?? 0
    if (await replaceDetails(this.db, this.by, known, event, this.#operator)) return known
    const lines = await recordEvents(this.db, this.by, [event], this.#operator)
    this.#lines.push(...lines)
    return lines[0]?.id ?? 0
  }

  /**
   * Stores events of what somebody else than who acts has done: a user who is being signed in, or
   * who pushed before.
   */
  async recordOf(by: Author, ...events: AuditEvent[]): Promise<void> {
    this.#lines.push(...(await recordEvents(this.db, by, events, this.#operator)))
  }
}

export type { Change }

/** Runs `work` as one change by somebody who is known. */
export type Transact<By extends Actor = Recorded> = <T>(
  work: (change: Change<By>) => Promise<T>,
) => Promise<T>

/** Runs actions that are recorded. */
export interface Audit {
  /**
   * Runs `work` in a transaction. Once it has been committed, its events are passed to the server's
   * log.
   *
   * @param by who acts. That a user may is asked for again in the transaction: what arrives slowly
   * may have lost its right on the way
   * @throws ServiceError `session_ended` or `credential_unknown`, and changes nothing
   */
  transaction<By extends Actor, T>(by: By, work: (change: Change<By>) => Promise<T>): Promise<T>
}

/** See `StoreOptions`. */
export interface AuditOptions {
  onEvent?: ((line: AuditLine) => void) | undefined
  operator?: Record<string, string> | undefined
  signInEvery?: Seconds | undefined
}

export function createAudit(
  { kysely, dialect }: Engine,
  { onEvent, operator, signInEvery = 0 }: AuditOptions,
): Audit {
  return {
    async transaction(by, work) {
      const lines: AuditLine[] = []
      const done = await kysely.transaction().execute((db) =>
        runInTransaction(async () => {
          const change = new Change(db, by, lines, operator, !dialect.serialWrites)
          if (by.kind === 'user') await checkUser(change, by, signInEvery)
          return work(change)
        }),
      )
      for (const line of lines) report(onEvent, line)
      return done
    },
  }
}

/**
 * Checks that a user may still act: is not locked, and has the session or the token, or the account
 * that was read when the user signed in. These rows are locked: what ends sessions of the user, for
 * example, comes before or after the change.
 *
 * @param signInEvery see `StoreOptions`
 * @throws ServiceError `session_ended`, or `credential_unknown` for a token
 */
async function checkUser(
  change: Pick<Change, 'db' | 'locked'>,
  by: SignedIn | TokenHolder | SigningIn,
  signInEvery: Seconds,
): Promise<void> {
  const user = change.db
    .selectFrom('users')
    .select('users.id')
    .where('users.id', '=', by.user.id)
    .where('users.locked_at', 'is', null)
  if (by.token) {
    const tokens = user
      .innerJoin('tokens', 'tokens.user_id', 'users.id')
      .select(['expires_at', 'signed_in_at'])
      .where('tokens.id', '=', by.token.id)
    const token = await change.locked(tokens).executeTakeFirst()
    const times = token && {
      expiresAt: token.expires_at,
      signInDue: signInDue(token.signed_in_at, signInEvery),
    }
    checkToken(times ?? null, Date.now())
    return
  }
  if (by.account) {
    const account = user
      .where('password_hash', 'is not distinct from', by.account.passwordHash)
      .where('oidc_subject', 'is not distinct from', by.account.subject)
    if (!(await change.locked(account).executeTakeFirst())) throw new ServiceError('session_ended')
    return
  }
  const session = user
    .innerJoin('sessions', 'sessions.user_id', 'users.id')
    .where('sessions.hash', '=', by.session)
    .where((eb) => eb.not(hasEnded(nowInSeconds())))
  if (!(await change.locked(session).executeTakeFirst())) throw new ServiceError('session_ended')
}

/** Passes on an event of a change that is committed, whatever becomes of that. */
function report(onEvent: AuditOptions['onEvent'], line: AuditLine): void {
  try {
    onEvent?.(line)
  } catch (error) {
    process.emitWarning(`an audit event was stored, but not logged: ${error}`)
  }
}
