import type { CommitVerdict } from '../index.ts'

type RequiredPattern = CommitVerdict['required'][number]

const WORDS = { pending: 'is pending', failure: 'reported failure' }

/**
 * Says what the required checks still lack, one reason each: `ci/test has not reported`. Empty if
 * all are `success`.
 */
export function unmetChecks(required: readonly RequiredPattern[]): string[] {
  return required.flatMap(({ pattern, state, contexts: [first = pattern, ...others] }) => {
    if (state === 'success') return []
    if (state === null) return [`${pattern} has not reported`]
    return [`${others.length === 0 ? first : pattern} ${WORDS[state]}`]
  })
}
