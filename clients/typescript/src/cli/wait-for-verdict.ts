import { countsAs } from '../generated/operations.ts'
import type { Client, CommitVerdict, GetVerdictInput, Status } from '../index.ts'
import { type PollOptions, poll, type Step, type Unanswered } from '../poll.ts'

/** How the wait for the verdict of a branch ended. */
export type VerdictResult =
  | {
      /**
       * `missing`: at the timeout a required check had not reported; `pending`: one was pending.
       */
      outcome: 'success' | 'failure' | 'missing' | 'pending'
      verdict: CommitVerdict
      /** The failed statuses. */
      decisive: Status[]
    }
  | { outcome: 'noRules' }
  | Unanswered

interface VerdictWait extends PollOptions {
  /** Whether the verdict on what has been reported counts where no rule matches the branch. */
  allowNoRules?: boolean | undefined
  /**
   * Called with the required statuses after the first read and after each change of the verdict.
   */
  onChange?: ((verdict: CommitVerdict, statuses: readonly Status[]) => void) | undefined
}

/** Waits until a commit has passed or failed the checks that the rules of a branch require. */
export async function waitForVerdict(
  client: Client,
  input: GetVerdictInput & { branch: string },
  { allowNoRules = false, onChange, ...options }: VerdictWait,
): Promise<VerdictResult> {
  let counted: Status[] = []
  return poll(
    (call) => client.getVerdict(input, call),
    options,
    async ({ body: verdict, isNew, timedOut }): Promise<Step<VerdictResult>> => {
      const { required } = verdict
      const hasRules = required.length > 0
      if (!hasRules && !allowNoRules) return { end: { outcome: 'noRules' } }
      if (isNew) {
        // The verdict names contexts; what they say and where they link is in the statuses.
        const read = await client.listStatuses(input, {
          signal: options.signal,
          totalTimeout: options.readTimeout,
        })
        if (read.status === 304) throw new Error('the service answered 304 to a read without If-None-Match')
        if (read.status !== 200) return { failure: read }
        const contexts = new Set(required.flatMap((pattern) => pattern.contexts))
        counted = read.body.statuses.filter(({ context }) => !hasRules || contexts.has(context))
        onChange?.(verdict, counted)
      }
      const decisive = counted.filter(({ state }) => countsAs.State[state] === 'failure')
      if (verdict.verdict !== 'pending') return { end: { outcome: verdict.verdict, verdict, decisive } }
      if (!timedOut) return { changesIn: Number.POSITIVE_INFINITY }
      const isMissing = required.some(({ state }) => state === null)
      return { end: { outcome: isMissing ? 'missing' : 'pending', verdict, decisive } }
    },
  )
}
