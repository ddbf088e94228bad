import type { ReportStatusResult, StatusReport } from '../index.ts'
import type { CheckRun } from './check-run.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { findReportTarget, type TargetValues } from './target.ts'
import { UsageError } from './usage-error.ts'

/**
 * Whether a report was stored, or refused because a newer run, or the result of its own run, is
 * stored. Otherwise the reason, and the exit code for it.
 */
export type Stored = { stored: true | 'newer' } | { stored: false; reason: string; exitCode: number }

const superseded: Stored = {
  stored: false,
  reason: 'the next report was sent',
  exitCode: exitCodes.unanswered,
}

/** Milliseconds that a report has left to be answered once the next one waits. */
const LAST_CHANCE = 1_000

/** Sends the reports of one check. Never rejects. */
export type Reporter = (state: StatusReport['state'], description: string) => Promise<Stored>

export interface ReporterValues extends TargetValues {
  context: string
  waitForCommit: number
}

/**
 * Opens a reporter of a run. Where the commit or the service is unknown, every report fails with
 * that reason. A report does not wait for long for the one before it: if that one arrives later,
 * the service refuses it.
 */
export async function openReporter(
  values: ReporterValues,
  checkRun: CheckRun,
  env: NodeJS.ProcessEnv,
): Promise<Reporter> {
  try {
    const { client, targetUrl, ...commit } = await findReportTarget(values, env, checkRun.fetch)
    const { context, waitForCommit } = values
    let last = new AbortController()
    return async (state, description) => {
      const previous = last
      setTimeout(() => previous.abort(), LAST_CHANCE).unref()
      const own = new AbortController()
      last = own
      const { signal } = own
      const body = checkRun.of({ state, description, context, ...(targetUrl && { target_url: targetUrl }) })
      try {
        const unmeasured = await checkRun.measure(() => client.getVerdict(commit, { signal }))
        if (unmeasured) return { stored: false, ...unmeasured }
        // It would be sent after the next one, and replace it.
        if (last !== own) return superseded
        return readResult(await client.reportStatus({ ...commit, body }, { waitForCommit, signal }))
      } catch {
        return superseded
      }
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const exitCode = error instanceof UsageError ? exitCodes.usage : exitCodes.unanswered
    return async () => ({ stored: false, reason, exitCode })
  }
}

function readResult(result: ReportStatusResult): Stored {
  if (result.status === 201) return { stored: true }
  if (result.status === 409) return { stored: 'newer' }
  return { stored: false, reason: result.body.error, exitCode: exitCodeOf(result) }
}
