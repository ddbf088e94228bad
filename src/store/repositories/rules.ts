import { schemas } from '../../../generated/schemas.ts'
import type { Person, Pusher } from '../../domain/actors.ts'
import { compareNames } from '../../domain/names.ts'
import { checkPattern, readPatterns } from '../../domain/patterns.ts'
import {
  checkPatternTotal,
  type RefRule,
  requiredBy,
  rulesOfRef,
  validateRule,
} from '../../domain/ref-rules.ts'
import { decodeName, type RefUpdate } from '../../domain/ref-updates.ts'
import { Refusal } from '../../domain/refusal.ts'
import { memoizeByObject } from '../../util/memoize.ts'
import { administeredRepository, namedAs, type RepositoryName } from '../access/administration.ts'
import { keepUsers, keptUser } from '../access/locked-rows.ts'
import type { AuditEvent } from '../audit/audit.ts'
import type { Audit, Change } from '../audit/change.ts'
import { MAX_UPDATES, pushedRepository } from '../audit/event-rows.ts'
import type { Reading } from '../engine.ts'
import { prepare } from '../prepared.ts'
import type { Queries } from '../tables.ts'
import { nowInSeconds } from '../time.ts'

/**
 * Returns functions that manage the required checks of branches and tags. All rules whose pattern
 * matches a ref apply together, so their order does not matter.
 */
export function createRuleStore(engine: Reading, audit: Audit) {
  const { kysely } = engine
  const ofRepository = prepare<{ repositoryId: number }>()((p) => rowsOf(kysely, p.repositoryId))
  const rulesOf = memoizeByObject((rows: RuleRow[]): RefRule[] =>
    [...Map.groupBy(rows, (row) => row.refPattern)].map(ruleOf),
  )

  /**
   * Returns the rules of a repository, ordered by the code points of their patterns. Returns the
   * same array as before while the database is sure that nothing has changed.
   */
  const load = async (repositoryId: number): Promise<readonly RefRule[]> =>
    rulesOf(await engine.read(ofRepository, { repositoryId }, { key: `rules ${repositoryId}` }))

  return {
    load,
    set: setRule,
    remove: removeRule,

    /**
     * Returns the patterns of all contexts that the rules of a branch or tag require, without
     * duplicates, ordered by the patterns of their rules. Empty if no rule applies.
     *
     * @param ref its full name
     */
    async requiredPatterns(repositoryId: number, ref: string): Promise<string[]> {
      return requiredBy(rulesOfRef(await load(repositoryId), ref))
    },

    /**
     * Records updates that a user may make although rules refuse them, by the reason. An event names
     * one update, or up to `MAX_UPDATES`: a push may have thousands.
     */
    recordBypasses: (pusher: Pusher, bypasses: ReadonlyMap<string, ReadonlySet<RefUpdate>>) =>
      audit.transaction(pusher.by, async (change) => {
        const { repository, pushedAs } = await pushedRepository(change.db, pusher)
        const event = { action: 'rule.bypassed', repository } as const
        const events: AuditEvent[] = []
        for (const [reason, bypassed] of bypasses) {
          const all = [...bypassed].map(decodeName)
          for (let start = 0; start < all.length; start += MAX_UPDATES) {
            const updates = all.slice(start, start + MAX_UPDATES)
            const only = updates.length === 1 ? updates[0] : undefined
            events.push({ ...event, details: { ...(only ?? { updates }), reason, ...pushedAs } })
          }
        }
        await change.record(...events)
      }),
  }
}

/**
 * Stores a rule. Replaces the rule with the same pattern.
 *
 * @param expected `ruleState` of the rule before, as far as the caller knows; default: any
 * @returns the number of patterns that all rules of the repository require
 * @throws Refusal if it exceeds a limit, a pattern is invalid, or the rule before is another one; as
 * `administeredRepository`
 */
async function setRule(
  change: Change<Person>,
  repository: RepositoryName,
  rule: RefRule,
  expected?: string,
): Promise<number> {
  const { refPattern, required, bypass } = validateRule(rule)
  const { db } = change
  const users = await keepUsers(
    change,
    bypass.map(({ id }) => id),
  )
  const row = await administeredRepository(change, repository)
  for (const { id } of bypass) keptUser(users, id)
  const rows = await rowsOf(db, row.id).execute()
  const from = detailsOf(rows, refPattern)
  checkUnchangedRule(from, expected)
  const others = rows.filter((row) => row.refPattern !== refPattern)
  const total = countPatterns(others) + required.length
  checkPatternTotal(countPatterns(rows), total)

  const stored = await db
    .insertInto('branch_rules')
    .values({
      repository_id: row.id,
      branch_pattern: refPattern,
      required: JSON.stringify(required),
      created_at: nowInSeconds(),
    })
    .onConflict((conflict) =>
      conflict
        .columns(['repository_id', 'branch_pattern'])
        .doUpdateSet({ required: (eb) => eb.ref('excluded.required') }),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
  await db.deleteFrom('branch_rule_bypasses').where('rule_id', '=', stored.id).execute()
  if (bypass.length > 0) {
    const values = bypass.map((user) => ({ rule_id: stored.id, user_id: user.id }))
    await db.insertInto('branch_rule_bypasses').values(values).execute()
  }

  const details = {
    branches: refPattern,
    required: [...required],
    bypass: bypass.map((user) => user.name),
    from,
  }
  await change.record({ action: 'rule.set', repository: namedAs(row), details })
  return total
}

/** Removes a rule. Throws as `setRule`, and Refusal if no rule has the pattern. */
async function removeRule(
  change: Change<Person>,
  repository: RepositoryName,
  refPattern: string,
  expected?: string,
): Promise<void> {
  checkPattern('pattern', refPattern, schemas.Branch)
  const { db } = change
  const row = await administeredRepository(change, repository)
  const from = detailsOf(await rowsOf(db, row.id).execute(), refPattern)
  checkUnchangedRule(from, expected)
  const deletedRule = await db
    .deleteFrom('branch_rules')
    .where('repository_id', '=', row.id)
    .where('branch_pattern', '=', refPattern)
    .returning('id')
    .executeTakeFirst()
  if (!deletedRule || !from) throw new Refusal(`there is no rule for the pattern "${refPattern}"`)
  const details = { branches: refPattern, from }
  await change.record({ action: 'rule.removed', repository: namedAs(row), details })
}

/** Returns a text that is another one for each rule of a pattern. */
export function ruleState(rule: Pick<RefRule, 'required' | 'bypass'> | null): string {
  return JSON.stringify(rule && { required: rule.required, bypass: rule.bypass.map(({ name }) => name) })
}

function checkUnchangedRule(
  stored: { required: string[]; bypass: string[] } | null,
  expected?: string,
): void {
  if (expected !== undefined && JSON.stringify(stored) !== expected)
    throw new Refusal('the rule is another one by now, which somebody else has set. Nothing was changed')
}

interface RuleRow {
  refPattern: string
  required: string
  user_id: number | null
  user_name: string | null
}

/** Returns a query of the rules of a repository: a row for each user who may bypass one, or one. */
function rowsOf(db: Queries, repositoryId: number) {
  return db
    .selectFrom('branch_rules')
    .leftJoin('branch_rule_bypasses', 'branch_rule_bypasses.rule_id', 'branch_rules.id')
    .leftJoin('users', 'users.id', 'branch_rule_bypasses.user_id')
    .select(['branch_pattern as refPattern', 'required', 'users.id as user_id', 'users.name as user_name'])
    .where('repository_id', '=', repositoryId)
    .orderBy('branch_pattern')
}

/** Returns a stored rule as an event names it; null if there is none. */
function detailsOf(
  rows: readonly RuleRow[],
  refPattern: string,
): { required: string[]; bypass: string[] } | null {
  const ofPattern = rows.filter((row) => row.refPattern === refPattern)
  const [rule] = ofPattern
  if (!rule) return null
  return { required: readPatterns(rule.required) ?? [], bypass: bypassOf(ofPattern).map(({ name }) => name) }
}

/** Returns the number of patterns that rules require. A rule that cannot be read counts as one. */
function countPatterns(rows: readonly RuleRow[]): number {
  const lists = new Map(rows.map((row) => [row.refPattern, readPatterns(row.required)]))
  return [...lists.values()].reduce((sum, patterns) => sum + (patterns?.length ?? 1), 0)
}

/** Returns the rule of rows that differ only in the user. @throws Error if it cannot be read */
function ruleOf([refPattern, rows]: [string, RuleRow[]]): RefRule {
  const required = readPatterns(rows[0]?.required ?? '')
  if (required === null) throw new Error(`the rule for ${refPattern} cannot be read`)
  return { refPattern, required, bypass: bypassOf(rows) }
}

/** Returns the users of the rows of one rule, ordered by name. */
function bypassOf(rows: readonly RuleRow[]): { id: number; name: string }[] {
  return rows
    .flatMap(({ user_id: id, user_name: name }) => (id === null || name === null ? [] : { id, name }))
    .sort((a, b) => compareNames(a.name, b.name))
}
