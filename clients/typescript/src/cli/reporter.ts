import type { ReportStatusResult, StatusReport } from '../index.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { findReportTarget, type TargetValues } from './target.ts'
import { UsageError } from './usage-error.ts'

/** Whether a report was stored; if not, the reason and the exit code for it. */
type Stored = { stored: true } | { stored: false; reason: string; exitCode: number }

/** Sends the reports of one check. Never rejects. */
export type Reporter = (state: StatusReport['state'], description: string) => Promise<Stored>

export interface ReporterValues extends TargetValues {
  context: string
  waitForCommit: number
}

/**
 * Opens a reporter. Where the commit or the service is unknown, every report fails with that
 * reason.
 */
export async function openReporter(values: ReporterValues, env: NodeJS.ProcessEnv): Promise<Reporter> {
  try {
    const { client, targetUrl, ...commit } = await findReportTarget(values, env)
    const { context, waitForCommit } = values
    return async (state, description) => {
      const body = { state, description, context, ...(targetUrl && { target_url: targetUrl }) }
      return readResult(await client.reportStatus({ ...commit, body }, { waitForCommit }))
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const exitCode = error instanceof UsageError ? exitCodes.usage : exitCodes.unanswered
    return async () => ({ stored: false, reason, exitCode })
  }
}

function readResult(result: ReportStatusResult): Stored {
  if (result.status === 201) return { stored: true }
  return { stored: false, reason: result.body.error, exitCode: exitCodeOf(result) }
}
