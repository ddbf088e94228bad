import { type Expression, type Insertable, sql } from 'kysely'
import { NO_OBJECT } from '../../domain/commit-id.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import type { RefUpdate } from '../../domain/ref-updates.ts'
import { chunksOf } from '../../util/lists.ts'
import type { Change } from '../audit/change.ts'
import type { Reading } from '../engine.ts'
import { prepare } from '../prepared.ts'
import type { Tables } from '../tables.ts'

/** Moves of a branch that are kept: the newest ones. */
export const MAX_MOVES = 1_000
/** Moves that are read: of a branch that was likely reported on lately, for most questions, and all. */
const READ = { latest: 20, newest: 300, all: MAX_MOVES }
/**
 * Bytes of the longest name whose moves are recorded: PostgreSQL's indexes hold at most 2,704 of a
 * row.
 */
const MAX_NAME = 2_000
/** Branches of one statement. */
const AT_ONCE = 300

/** A push: what it asks for if it is open, else how it moved the branch. */
interface PushRow {
  push_id: number
  commands: string | null
  old_id: string | null
  new_id: string | null
}

/**
 * Returns functions that read where pushes have moved branches.
 *
 * A push is older than another one if its id is: a push that builds on another one begins after that
 * has moved the branch. So the order does not depend on when each end was recorded.
 */
export function createBranchMoves(engine: Reading) {
  const { kysely } = engine
  const pushesOf = (count: number) =>
    prepare<{ repositoryId: number; ref: string; named: string }>()((p) => {
      const recorded = kysely
        .selectFrom('branch_moves')
        .select(['push_id', 'old_id', 'new_id'])
        .where('repository_id', '=', p.repositoryId)
        .where('ref', '=', p.ref)
        .orderBy('push_id', 'desc')
        .limit(count)
      return kysely
        .selectFrom('push_intents')
        .select(({ ref }) => ['id as push_id', textOrNull(ref('commands')).as('commands')])
        .select([textOrNull(null).as('old_id'), textOrNull(null).as('new_id')])
        .where('repository_id', '=', p.repositoryId)
        .where(sql<boolean>`commands like ${p.named} escape '!'`)
        .unionAll(
          kysely
            .selectFrom(recorded.as('recorded'))
            .select(['push_id', textOrNull(null).as('commands')])
            .select(({ ref }) => [
              textOrNull(ref('old_id')).as('old_id'),
              textOrNull(ref('new_id')).as('new_id'),
            ]),
        )
    })
  const queries = { latest: pushesOf(READ.latest), newest: pushesOf(READ.newest), all: pushesOf(READ.all) }

  /**
   * Returns the commits that a branch was at, as far as they are recorded, the newest first: what
   * each move led to and what it came from. Begins with the present one. Those of open pushes are
   * among them as soon as git has made them.
   *
   * @param ref its full name, decoded as Latin-1
   * @param tip the commit that it is at
   * @param which how many moves are read
   */
  return async (
    repositoryId: number,
    ref: string,
    tip: string,
    which: keyof typeof READ = 'newest',
  ): Promise<string[]> => {
    const named = `%"ref":${JSON.stringify(ref).replaceAll(/[!%_]/g, '!$&')},%`
    const cache = { key: openPushesKey(repositoryId), variant: `${which} ${ref}` }
    const rows = await engine.read(queries[which], { repositoryId, ref, named }, cache)
    return tipsOf(rows, ref, tip)
  }
}

/** Returns a column that is missing in the other part of a union. */
function textOrNull(value: Expression<string> | null) {
  return sql<string | null>`${value ?? sql`cast(null as text)`}`
}

/** The key of what any push invalidates when it is stored. */
export const OPEN_PUSHES = 'push intents'

/** Returns that of what a push to a repository invalidates. */
export function openPushesKey(repositoryId: number): string {
  return `${OPEN_PUSHES} ${repositoryId}`
}

function tipsOf(rows: readonly PushRow[], ref: string, tip: string): string[] {
  const tips = [tip]
  // A position that two moves share is one.
  const add = (id: string) => {
    if (id !== tips.at(-1)) tips.push(id)
  }
  let end = tip
  for (const row of rows.toSorted((a, b) => b.push_id - a.push_id)) {
    const move = moveOf(row, ref)
    // git may not have made it yet, or may refuse it.
    if (!move || (row.commands !== null && move.new !== end)) continue
    end = move.old
    if (!NO_OBJECT.test(move.new)) add(move.new)
    // Before that, another branch had this name.
    if (NO_OBJECT.test(end)) break
    add(end)
  }
  return tips
}

function moveOf({ commands, old_id, new_id }: PushRow, ref: string): Omit<RefUpdate, 'ref'> | undefined {
  if (old_id !== null && new_id !== null) return { old: old_id, new: new_id }
  // Only `open` of the store of pushes writes them.
  const all: RefUpdate[] = commands === null ? [] : JSON.parse(commands)
  return all.find((command) => command.ref === ref)
}

/**
 * Records how a push moved branches, in the transaction of its event. A branch that it creates or
 * deletes keeps no earlier moves.
 *
 * @param updates names are decoded as Latin-1
 */
export async function recordMoves(
  { db }: Pick<Change, 'db'>,
  repositoryId: number,
  pushId: number,
  updates: readonly RefUpdate[],
): Promise<void> {
  const moves = updates.filter(({ ref }) => ref.startsWith(BRANCHES) && Buffer.byteLength(ref) <= MAX_NAME)
  for (const some of chunksOf(moves, AT_ONCE)) {
    // Branches that begin or end with the push, and those that have earlier moves.
    const [ended, moved]: [string[], string[]] = [[], []]
    const rows: Insertable<Tables['branch_moves']>[] = []
    for (const { ref, old: old_id, new: new_id } of some) {
      const isDeleted = NO_OBJECT.test(new_id)
      if (isDeleted || NO_OBJECT.test(old_id)) ended.push(ref)
      else moved.push(ref)
      if (!isDeleted) rows.push({ repository_id: repositoryId, ref, push_id: pushId, old_id, new_id })
    }
    if (ended.length > 0)
      await db
        .deleteFrom('branch_moves')
        .where('repository_id', '=', repositoryId)
        .where('ref', 'in', ended)
        .where('push_id', '<', pushId)
        .execute()
    // Another process may have settled the push too early.
    if (rows.length > 0)
      await db
        .insertInto('branch_moves')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .execute()
    if (moved.length > 0) await removeOld(db, repositoryId, moved)
  }
}

/** Removes moves of branches beyond the newest `MAX_MOVES`. */
async function removeOld(db: Change['db'], repositoryId: number, refs: readonly string[]): Promise<void> {
  const full = await db
    .selectFrom('branch_moves')
    .select('ref')
    .where('repository_id', '=', repositoryId)
    .where('ref', 'in', refs)
    .groupBy('ref')
    .having((eb) => eb(eb.fn.countAll(), '>', MAX_MOVES))
    .execute()
  for (const { ref } of full) {
    const ofBranch = db
      .selectFrom('branch_moves')
      .where('repository_id', '=', repositoryId)
      .where('ref', '=', ref)
    const oldest = ofBranch.select('push_id').orderBy('push_id', 'desc').offset(MAX_MOVES).limit(1)
    await db
      .deleteFrom('branch_moves')
      .where('repository_id', '=', repositoryId)
      .where('ref', '=', ref)
      .where('push_id', '<=', oldest)
      .execute()
  }
}
