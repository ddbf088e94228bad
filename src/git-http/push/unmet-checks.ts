import { setImmediate } from 'node:timers/promises'
import { type RefRule, requiredBy } from '../../domain/ref-rules.ts'
import { explanationSteps, type ReportedContext, type Steps } from '../../domain/verdict.ts'
import type { QueueClient } from '../../schedule/fair-queue.ts'
import type { Turns } from '../../schedule/turns.ts'
import type { Store } from '../../store/store.ts'

/** A commit, and the rules of a ref to which it is pushed. */
interface RuledCommit {
  sha: string
  rules: readonly RefRule[]
}

/** Why a commit may not be pushed to a ref yet. */
export interface UnmetChecks {
  reason: string
  /** Whether a required check has failed, so that the commit has to be mended or checked again. */
  hasFailed: boolean
}

/** Commits that one statement reads: 30 with 1,000 contexts each take 50 ms. */
const READ_AT_ONCE = 30

/**
 * Reads what has been reported on commits. Returns a function that says why one of them may not be
 * pushed to a ref with these rules yet; null if it has passed its checks.
 *
 * @param client takes turns with others
 * @throws StoreUnavailable, QueueFull; the reason of the client's signal
 */
export async function findUnmetChecks(
  { store, turns }: { store: Pick<Store, 'reportedContexts'>; turns: Turns },
  repositoryId: number,
  commits: readonly RuledCommit[],
  client: QueueClient,
): Promise<(commit: RuledCommit) => UnmetChecks | null> {
  // Many refs have the same rules, and may name the same commit. Each pair is decided once.
  const pairs = new Map(commits.map((commit) => [keyOf(commit), commit]))
  const bySha = Map.groupBy(pairs.values(), ({ sha }) => sha)
  const shas = [...bySha.keys()]
  const unmet = new Map<string, UnmetChecks | null>()
  function* decideSome(some: readonly string[], lists: readonly (readonly ReportedContext[])[]): Steps<void> {
    for (const [index, sha] of some.entries())
      for (const commit of bySha.get(sha) ?? []) {
        const { reason, verdict } = yield* explanationSteps(lists[index] ?? [], requiredBy(commit.rules))
        unmet.set(keyOf(commit), reason === null ? null : { reason, hasFailed: verdict === 'failure' })
        yield
      }
  }

  for (let start = 0; start < shas.length; start += READ_AT_ONCE) {
    const some = shas.slice(start, start + READ_AT_ONCE)
    const lists = await store.reportedContexts(repositoryId, some)
    await turns.finish(client, decideSome(some, lists))
    await setImmediate()
    client.signal?.throwIfAborted()
  }
  return (commit) => unmet.get(keyOf(commit)) ?? null
}

function keyOf({ sha, rules }: RuledCommit): string {
  // No pattern contains it.
  return [sha, ...requiredBy(rules)].join('\0')
}
