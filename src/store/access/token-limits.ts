import type { Selectable } from 'kysely'
import { readPatterns } from '../../domain/patterns.ts'
import type { Tables } from '../tables.ts'

/** What a token may do less than its user. */
export interface TokenLimits {
  /** Ids of the repositories to which it gives access; null: all to which its user has access. */
  repositories: readonly number[] | null
  /** Patterns of the contexts that it may report; null: all. */
  contexts: readonly string[] | null
  /** Whether it may push with git. */
  push: boolean
}

export const NO_LIMITS: TokenLimits = { repositories: null, contexts: null, push: true }

/** The columns of `tokens` that hold limits. */
export const limitColumns = ['repositories', 'contexts', 'push'] as const

type LimitColumns = Pick<Selectable<Tables['tokens']>, (typeof limitColumns)[number]>

/** Returns the limits as stored. */
export function storedLimits({ repositories, contexts, push }: TokenLimits): LimitColumns {
  return {
    // A space on both sides of each id, so that a statement finds an id without reading the list.
    repositories: repositories && ` ${repositories.join(' ')} `,
    contexts: contexts && JSON.stringify(contexts),
    push: push ? 1 : 0,
  }
}

/** Returns stored limits. */
export function readLimits({ repositories, contexts, push }: LimitColumns): TokenLimits {
  return {
    repositories: repositories === null ? null : repositories.split(' ').filter(Boolean).map(Number),
    // Without a pattern the token reports nothing, also if the list is damaged.
    contexts: contexts === null ? null : (readPatterns(contexts) ?? []),
    push: push !== 0,
  }
}
