import { setImmediate } from 'node:timers/promises'
import { type RefRule, requiredBy } from '../../domain/ref-rules.ts'
import { explainVerdict } from '../../domain/verdict.ts'
import type { Store } from '../../store/store.ts'

/** A commit, and the rules of a ref to which it is pushed. */
interface RuledCommit {
  sha: string
  rules: readonly RefRule[]
}

/** Commits that one statement reads: 30 with 1,000 contexts each take 50 ms. */
const READ_AT_ONCE = 30

/**
 * Reads what has been reported on commits. Returns a function that says why one of them may not be
 * pushed to a ref with these rules yet; null if it has passed its checks.
 *
 * @throws StoreUnavailable; the signal's reason
 */
export async function findUnmetChecks(
  { reportedContexts }: Pick<Store, 'reportedContexts'>,
  repositoryId: number,
  commits: readonly RuledCommit[],
  signal: AbortSignal,
): Promise<(commit: RuledCommit) => string | null> {
  // Many refs have the same rules, and may name the same commit. Each pair is decided once.
  const pairs = new Map(commits.map((commit) => [keyOf(commit), commit]))
  const bySha = Map.groupBy(pairs.values(), ({ sha }) => sha)
  const shas = [...bySha.keys()]
  const reasons = new Map<string, string | null>()
  for (let start = 0; start < shas.length; start += READ_AT_ONCE) {
    const some = shas.slice(start, start + READ_AT_ONCE)
    const lists = await reportedContexts(repositoryId, some)
    for (const [index, sha] of some.entries())
      for (const commit of bySha.get(sha) ?? []) {
        const { reason } = explainVerdict(lists[index] ?? [], requiredBy(commit.rules))
        reasons.set(keyOf(commit), reason)
        // A commit with 1,000 contexts takes milliseconds.
        await setImmediate()
        signal.throwIfAborted()
      }
  }
  return (commit) => reasons.get(keyOf(commit)) ?? null
}

function keyOf({ sha, rules }: RuledCommit): string {
  // No pattern contains it.
  return [sha, ...requiredBy(rules)].join('\0')
}
