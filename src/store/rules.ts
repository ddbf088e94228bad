import type { Kysely } from 'kysely'
import { memoizeByObject } from '../util/memoize-by-object.ts'
import { matchesPattern } from '../util/pattern.ts'
import type { Engine } from './engine.ts'
import { checkPattern, checkPatterns, readPatterns } from './patterns.ts'
import { prepare } from './prepared.ts'
import { RuleViolation } from './rule-violation.ts'
import type { Tables } from './tables.ts'
import { nowInSeconds } from './time.ts'

/** Which checks a commit must have passed before it becomes the tip of certain branches. */
export interface BranchRule {
  /** Matches names of branches without `refs/heads/`. `*` stands for any characters. */
  branchPattern: string
  /** Patterns of contexts. Each must match a context of the commit, and every context that it matches must be `success`. */
  required: string[]
  /** Names of the users who may push to these branches without the checks. */
  bypass: string[]
}

export interface NewBranchRule {
  branchPattern: string
  required: readonly string[]
  bypassUserIds: readonly number[]
}

/** Limits of the rules of a repository. */
const MAX_RULES = 100
const MAX_BYPASSES = 20

/**
 * Returns functions that manage the required checks of branches. All rules whose pattern matches a branch apply together,
 * so their order does not matter.
 */
export function ruleStore(engine: Engine) {
  const { kysely } = engine
  const rulesOf = prepare<{ repositoryId: number }>()((p) =>
    kysely
      .selectFrom('branch_rules')
      .select(['id', 'branch_pattern', 'required'])
      .where('repository_id', '=', p.repositoryId)
      .orderBy('branch_pattern'),
  )
  const bypassesOf = prepare<{ repositoryId: number; userId: number }>()((p) =>
    kysely
      .selectFrom('branch_rules')
      .innerJoin('branch_rule_bypasses', 'branch_rule_bypasses.rule_id', 'branch_rules.id')
      .select('branch_rules.id')
      .where('branch_rules.repository_id', '=', p.repositoryId)
      .where('branch_rule_bypasses.user_id', '=', p.userId),
  )
  const requiredOf = memoizeByObject((row: { branch_pattern: string; required: string }): string[] => {
    const required = readPatterns(row.required)
    if (required === null) throw new Error(`the rule for ${row.branch_pattern} cannot be read`)
    return required
  })

  const matching = async (repositoryId: number, branch: string) => {
    const rows = await engine.read(rulesOf, { repositoryId }, { key: `rules ${repositoryId}` })
    return rows.filter((row) => matchesPattern(row.branch_pattern, branch))
  }

  return {
    /**
     * Stores a rule. Replaces the rule with the same branch pattern.
     *
     * @throws RuleViolation if it exceeds a limit or a pattern is invalid
     */
    async set(repositoryId: number, rule: NewBranchRule): Promise<void> {
      const { branchPattern, required, bypassUserIds } = checked(rule)
      await kysely.transaction().execute(async (trx) => {
        const row = await trx
          .insertInto('branch_rules')
          .values({
            repository_id: repositoryId,
            branch_pattern: branchPattern,
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
        await checkCount(trx, repositoryId)
        await trx.deleteFrom('branch_rule_bypasses').where('rule_id', '=', row.id).execute()
        if (bypassUserIds.length === 0) return
        await trx
          .insertInto('branch_rule_bypasses')
          .values(bypassUserIds.map((user_id) => ({ rule_id: row.id, user_id })))
          .execute()
      })
    },

    /** Returns the rules of a repository, ordered by the code points of their patterns. */
    async list(repositoryId: number): Promise<BranchRule[]> {
      const rows = await kysely
        .selectFrom('branch_rules')
        .leftJoin('branch_rule_bypasses', 'branch_rule_bypasses.rule_id', 'branch_rules.id')
        .leftJoin('users', 'users.id', 'branch_rule_bypasses.user_id')
        .select(['branch_pattern', 'required', 'users.name as user'])
        .where('repository_id', '=', repositoryId)
        .orderBy('branch_pattern')
        .orderBy('users.name_key')
        .execute()
      const rules = new Map<string, BranchRule>()
      for (const row of rows) {
        const rule = rules.get(row.branch_pattern) ?? {
          branchPattern: row.branch_pattern,
          required: requiredOf(row),
          bypass: [],
        }
        if (row.user !== null) rule.bypass.push(row.user)
        rules.set(row.branch_pattern, rule)
      }
      return [...rules.values()]
    },

    /** Removes a rule. @throws RuleViolation if no rule has the branch pattern */
    async remove(repositoryId: number, branchPattern: string): Promise<void> {
      const deleted = await kysely
        .deleteFrom('branch_rules')
        .where('repository_id', '=', repositoryId)
        .where('branch_pattern', '=', branchPattern)
        .returning('id')
        .executeTakeFirst()
      if (!deleted) throw new RuleViolation(`there is no rule for the branch pattern "${branchPattern}"`)
    },

    /** Returns whether the repository has a rule for any branch. */
    async any(repositoryId: number): Promise<boolean> {
      return (await engine.read(rulesOf, { repositoryId }, { key: `rules ${repositoryId}` })).length > 0
    },

    /** Returns whether a rule applies to the branch. @param branch its name without `refs/heads/` */
    async matches(repositoryId: number, branch: string): Promise<boolean> {
      return (await matching(repositoryId, branch)).length > 0
    },

    /**
     * Returns the patterns of all contexts that the branch requires, without duplicates, ordered by the patterns of their
     * rules. Empty if no rule applies.
     *
     * @param branch its name without `refs/heads/`
     */
    async requiredPatterns(repositoryId: number, branch: string): Promise<string[]> {
      return [...new Set((await matching(repositoryId, branch)).flatMap(requiredOf))]
    },

    /** Returns whether a user may bypass every rule that applies to the branch. False if no rule applies. */
    async bypasses(repositoryId: number, branch: string, userId: number): Promise<boolean> {
      const rules = await matching(repositoryId, branch)
      if (rules.length === 0) return false
      const cache = { key: `rules ${repositoryId}`, variant: `bypassed by ${userId}` }
      const bypassed = await engine.read(bypassesOf, { repositoryId, userId }, cache)
      return rules.every((rule) => bypassed.some(({ id }) => id === rule.id))
    },
  }
}

/** Returns the rule without duplicates. @throws RuleViolation if it breaks a limit */
function checked({ branchPattern, required, bypassUserIds }: NewBranchRule): NewBranchRule {
  if (branchPattern.startsWith('refs/heads/'))
    throw new RuleViolation(`branch pattern "${branchPattern}": leave out "refs/heads/"`)
  const rule = {
    branchPattern,
    required: [...new Set(required)],
    bypassUserIds: [...new Set(bypassUserIds)],
  }
  checkPattern('branch pattern', branchPattern)
  checkPatterns('required pattern', rule.required)
  if (rule.required.length === 0) throw new RuleViolation('a rule requires at least one pattern')
  if (rule.bypassUserIds.length > MAX_BYPASSES)
    throw new RuleViolation(
      `${rule.bypassUserIds.length} users who may bypass; at most ${MAX_BYPASSES} are allowed`,
    )
  return rule
}

async function checkCount(db: Kysely<Tables>, repositoryId: number): Promise<void> {
  const { rules } = await db
    .selectFrom('branch_rules')
    .select(({ fn }) => fn.countAll<number>().as('rules'))
    .where('repository_id', '=', repositoryId)
    .executeTakeFirstOrThrow()
  if (rules > MAX_RULES)
    throw new RuleViolation(`the repository has ${MAX_RULES} rules, which is the maximum; remove one first`)
}
