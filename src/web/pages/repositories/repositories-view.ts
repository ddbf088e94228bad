import { schemas } from '../../../../generated/schemas.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { formatTime } from '../../../store/time.ts'
import { type Html, html } from '../../parts/html.ts'
import { formatAge, shownText } from '../../parts/text.ts'
import { pill, type SummarizedCommit, subjectOf } from '../../statuses/commit-row.ts'
import { failedNames } from '../../statuses/facts.ts'
import type { BranchVerdict } from '../../statuses/verdicts.ts'

/** Characters of OWNER/NAME. */
const MAX_TEXT = 2 * schemas.Name.maxLength + 1

const NEW = '/settings/repositories/new'

/** Why a row has no commit. */
export type Problem = 'empty' | 'unavailable' | 'slow'
/** The commit since which checks of a row fail. */
interface Since {
  commit: Commit
  /** When a check failed on it, in seconds since the epoch. */
  failedAt: number
  /** Whether they may fail for longer. */
  isOlder: boolean
}
type CommitRow = Extract<RepositoryRow, SummarizedCommit>
export type RepositoryRow = { repository: ReadableRepository } & (
  | (SummarizedCommit & { verdict: BranchVerdict | undefined; since?: Since })
  | { problem: Problem }
)

/** A page of the repositories that a user may see. */
export interface RepositoriesView {
  rows: readonly RepositoryRow[]
  isSignedIn: boolean
  /** Whether the user can create repositories here. */
  canCreate: boolean
  /** Of all rows, on the page of an owner. */
  owner?: string
  /** What was searched for. */
  q?: string
  /** Where there are more. */
  next?: { path: string; text: string }
}

/** Renders repositories with the state of their default branches. */
export function repositoriesView(view: RepositoriesView): Html {
  const { rows, owner, q, next } = view
  const title = html`<h1>${owner === undefined ? 'Repositories' : `Repositories of ${owner}`}</h1>`
  return html`${view.canCreate ? html`<div class="titled">${title}<a class="button" href="${NEW}${owner === undefined ? '' : `?owner=${owner}`}">New repository</a></div>` : title}
${owner === undefined && (rows.length > 0 || q !== undefined) ? searchForm(q) : ''}
${rows.length === 0 ? html`<p class="empty">${emptyView(view)}</p>` : html`<ul class="list rows">${rows.map(repositoryItem)}</ul>`}
${next ? html`<p><a href="${next.path}">${next.text}</a></p>` : ''}`
}

function searchForm(q = ''): Html {
  return html`<form class="filter" role="search" aria-label="Repositories" action="/">
  <label class="sr" for="q">Owner or name begins with</label>
  <input id="q" name="q" type="search" value="${q}" placeholder="Owner or name" maxlength="${MAX_TEXT}" autocomplete="off">
  <button class="quiet" type="submit">Find</button>
  ${q === '' ? '' : html`<a href="/">Clear</a>`}
</form>`
}

function emptyView({ isSignedIn, canCreate, owner, q = '' }: RepositoriesView): Html {
  if (q !== '')
    return html`No repository that you may see has an owner or a name that begins with “${shownText(q)}”. <a href="/?after=">All repositories</a>`
  if (owner !== undefined) return html`There are no repositories of ${owner} yet.`
  if (canCreate)
    return html`You do not have access to any repositories. <a href="${NEW}">Create one</a>, or ask the owner of one for access.`
  return isSignedIn
    ? html`You do not have access to any repositories. An administrator creates one with
        <code>repo create OWNER/NAME</code>.`
    : html`There are no public repositories. <a href="/login">Sign in</a> to see yours.`
}

const PROBLEMS: Record<Problem, Html | string> = {
  empty: 'Nothing has been pushed yet.',
  unavailable: 'The files of this repository cannot be opened. The server’s log has the reason.',
  slow: 'Reading this repository takes long. Reload this page in a few seconds.',
}

function repositoryItem(row: RepositoryRow): Html {
  const { owner, name, visibility } = row.repository
  const badge =
    'commit' in row
      ? pill(row.summary)
      : html`<span class="badge unreported">${row.problem === 'slow' ? 'unknown' : row.problem}</span>`
  return html`<li id="r-${row.repository.id}">
${badge}
<span><a class="faint" href="/${owner}">${owner}</a> / <a href="/${owner}/${name}"><strong>${name}</strong></a>${visibility === 'private' ? html` <span class="badge">private</span>` : ''}</span>
${'commit' in row ? commitOf(row) : html`<span class="faint note">${PROBLEMS[row.problem]}</span>`}
</li>`
}

/** Renders what failed, or what the rules lack, and the commit since which it fails, or the newest one. */
function commitOf(row: CommitRow): Html {
  const { repository, commit, summary, verdict, since } = row
  const path = `/${repository.owner}/${repository.name}/commits/`
  const fact =
    summary.failed.length > 0
      ? html`${failedNames(summary, verdict ? [verdict] : [], path + commit.sha)}${verdict?.unmet.length === 0 ? ' · meets the rules' : ''}`
      : verdict?.reason && shownText(verdict.reason)
  const shown = since?.commit ?? commit
  const words = since ? (since.isOlder ? 'since at least ' : 'since ') : ''
  return html`<span class="faint note">${fact} <a href="${path}${shown.sha}">${words}${subjectOf(shown)}</a> ${shownText(shown.author)}</span>
<span class="faint">${ageOf(row)}</span>`
}

/** Renders since when checks fail, or how old the newest commit is. */
function ageOf({ commit, summary: { failed }, since }: CommitRow): Html | string {
  if (failed.length === 0) return commit.date ? formatAge(commit.date) : ''
  return formatAge(formatTime(since?.failedAt ?? Math.min(...failed.map(({ failedAt }) => failedAt))))
}
