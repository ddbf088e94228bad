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
 * Renders who broke a branch and since when, in a sentence: the author of the commit if it is one, else
 * all authors of the commits that it may have been.
 */
export function brokenWords(repository: Pick<ReadableRepository, 'owner' | 'name'>, broken: Broken): Html {
  const { since, lastPassed, failedAt, state } = broken
  const { commits, more } = broken.suspects
  const time = formatLasting(formatTime(failedAt))
  const link = (sha: string) =>
    html`<a href="${commitPath(repository, sha)}"><code>${shortId(sha)}</code></a>`
  const [first] = commits
  const subject = html`<a href="${commitPath(repository, since)}">${first ? subjectOf(first) : html`<code>${shortId(since)}</code>`}</a>`
  if (state === 'error') return html`<span class="broken">Error for ${time}: ${subject}</span>`
  if (!namesSomebody(broken)) return html`<span class="broken">Failing for ${time}: ${subject}</span>`
  if (first === undefined) return html`<span class="broken">Broken for ${time} since ${subject}</span>`
  const authors = [...new Set(commits.map(({ author }) => author))]
  const names = enumerate(authors.slice(0, AUTHORS).map(authorOf), authors.length)
  if (commits.length === 1)
    return html`<span class="broken">Broken for ${time} by ${names}: ${subject}</span>`
  const count = `${more ? 'over ' : ''}${commits.length} commits`
  return html`<span class="broken" title="${visibleText(authors.join(', '))}">Broken for ${time} between ${link(lastPassed ?? since)} and ${link(since)}: ${names} (${count})</span>`
}

/** Renders on how many commits a check failed. */
export function failedOn({ length, lastPassed }: Pick<Breakage, 'length' | 'lastPassed'>): Html {
  return html`${length} ${length === 1 ? 'commit' : 'commits'}${lastPassed === null ? ', no pass before' : ''}`
}

function authorOf(author: string): Html {
  return html`<strong>${author ? shownText(author) : 'nobody'}</strong>`
}
