import { type Breakage, namesSomebody, type Suspects } from '../../branches/breakages.ts'
import { shortId } from '../../domain/commit-id.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import { formatTime } from '../../store/time.ts'
import { type Html, html } from '../text/html.ts'
import { commitPath } from '../text/repository-paths.ts'
import { enumerate, formatLasting, shownText, visibleText } from '../text/text.ts'
import { subjectOf } from './commit-row.ts'

/** Since when a branch is broken, and the commits that may have broken it. */
export interface Broken extends Breakage {
  suspects: Suspects
}

/** What is said while git cannot tell. */
export const UNKNOWN: Suspects = { commits: [], more: false }
/** Authors that are named. */
const AUTHORS = 4

/**
 * Renders who broke a branch, since when, and on how many commits it failed: the author of the commit if
 * it is one, else all authors of the commits that it may have been.
 */
export function brokenWords(repository: Pick<ReadableRepository, 'owner' | 'name'>, broken: Broken): Html {
  return html`<span class="broken">${whoBroke(repository, broken)} <span class="faint">· failed on ${failedOn(broken)}</span></span>`
}

function whoBroke(repository: Pick<ReadableRepository, 'owner' | 'name'>, broken: Broken): Html {
  const { since, lastPassed, failedAt, state } = broken
  const { commits, more } = broken.suspects
  const time = formatLasting(formatTime(failedAt))
  const link = (sha: string, text = html`<code>${shortId(sha)}</code>`) =>
    html`<a href="${commitPath(repository, sha)}">${text}</a>`
  const [first] = commits
  const subject = link(since, first && subjectOf(first))
  if (state === 'error') return html`Error for ${time}: ${subject}`
  if (!namesSomebody(broken)) return html`Failing for ${time}: ${subject}`
  if (first === undefined) return html`Broken for ${time} since ${subject}`
  const authors = [...new Set(commits.map(({ author }) => author))]
  const names = enumerate(authors.slice(0, AUTHORS).map(authorOf), authors.length)
  if (commits.length === 1) return html`Broken for ${time} by ${names}: ${subject}`
  const count = `${more ? 'over ' : ''}${commits.length} commits`
  const all =
    authors.length > AUTHORS
      ? html` title="${authors.map((author) => visibleText(author) || 'nobody').join(', ')}"`
      : ''
  return html`Broken for ${time} between ${link(lastPassed ?? since)} and ${link(since)}: <span${all}>${names}</span> (${count})`
}

function failedOn({ length, lastPassed }: Breakage): Html {
  return html`${length} ${length === 1 ? 'commit' : 'commits'}${lastPassed === null ? ', no pass before' : ''}`
}

function authorOf(author: string): Html {
  return html`<strong>${author ? shownText(author) : 'nobody'}</strong>`
}
