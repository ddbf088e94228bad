import { type CheckMatrix, MATRIX_COMMITS } from '../../store/statuses/check-matrix.ts'
import { formatTime } from '../../store/time.ts'
import { type Html, html } from '../text/html.ts'
import { formatAge, shownText } from '../text/text.ts'

/** Contexts to choose from. */
const CHOICES = 100

/** A context of the newest commits. */
export interface RecentContext {
  context: string
  /** Seconds since the epoch. */
  reportedAt: number
}

/**
 * Returns contexts of the newest commits, and when each was reported last.
 *
 * @param commits the newest first
 */
export async function recentContexts(
  matrix: CheckMatrix,
  repositoryId: number,
  commits: readonly { sha: string }[],
): Promise<RecentContext[]> {
  const shas = commits.slice(0, MATRIX_COMMITS).map(({ sha }) => sha)
  const columns = (await matrix.listColumns(repositoryId, shas)).slice(0, CHOICES)
  const names = columns.map(({ context }) => context).sort()
  const histories = await matrix.listHistories(repositoryId, shas, names)
  return names.map((context) => {
    // `map` would skip the commits without the context.
    const times = Array.from(histories.get(context) ?? [], (cell) => cell?.updated_at ?? 0)
    return { context, reportedAt: Math.max(0, ...times) }
  })
}

/** Renders contexts to choose from, as the field `context`. */
export function contextChoices(recent: readonly RecentContext[], chosen: readonly string[]): Html | '' {
  if (recent.length === 0) return ''
  const choice = ({ context, reportedAt }: RecentContext) =>
    html`<label class="check"><input type="checkbox" name="context" value="${context}" ${chosen.includes(context) ? 'checked' : ''}>
      ${shownText(context)} <span class="faint">${formatAge(formatTime(reportedAt))}</span></label>`
  return html`<fieldset class="field">
      <legend>Checks that reported lately</legend>
      <div class="choices">${recent.map(choice)}</div>
    </fieldset>`
}
