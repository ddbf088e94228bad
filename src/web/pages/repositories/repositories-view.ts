import { schemas } from '../../../../generated/schemas.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { formatTime } from '../../../store/time.ts'
import { type Broken, brokenWords } from '../../statuses/broken.ts'
import { failedInRow } from '../../statuses/commit-answer.ts'
import { type SummarizedCommit, stateBeside, subjectOf } from '../../statuses/commit-row.ts'
import { stateIcon } from '../../statuses/state-summary.ts'
import type { BranchVerdict } from '../../statuses/verdicts.ts'
import { type Html, html } from '../../text/html.ts'
import { commitPath } from '../../text/repository-paths.ts'
import { formatAge, shownOwnName, shownText } from '../../text/text.ts'
import type { Condition } from './ranking.ts'
import type { StateCounts } from './repository-states.ts'

/** Characters of OWNER/NAME. */
const MAX_TEXT = 2 * schemas.Name.maxLength + 1

const NEW = '/settings/repositories/new'

/** Why a row has no commit. */
export type Problem = 'empty' | 'unavailable' | 'slow'
type CommitRow = Extract<RepositoryRow, SummarizedCommit>
export type RepositoryRow = { repository: ReadableRepository } & (
  | (SummarizedCommit & { verdict: BranchVerdict | undefined; broken?: Broken | undefined })
  | { problem: Problem }
)

/** A page of the repositories that a user may see. */
export interface RepositoriesView {
  rows: readonly RepositoryRow[]
  /** How many repositories are in which state, of those that come first or of an owner. */
  states: StateCounts
  /** The condition by which they are filtered. */
  wanted?: Condition | undefined
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
${stateLinks(view)}
${rows.length === 0 ? html`<p class="empty">${emptyView(view)}</p>` : html`<ul class="list rows repositories">${rows.map(repositoryItem)}</ul>`}
${next ? html`<p><a href="${next.path}">${next.text}</a></p>` : ''}`
}

function searchForm(q = ''): Html {
  return html`<form class="filter" role="search" aria-label="Repositories" action="/">
<input id="q" name="q" type="search" value="${q}" aria-label="Part of an owner or a name" placeholder="Owner or name" maxlength="${MAX_TEXT}" autocomplete="off">
<button class="quiet">Find</button>
${q === '' ? '' : html`<a href="/">Clear</a>`}</form>`
}

function emptyView({ isSignedIn, canCreate, owner, wanted, q = '' }: RepositoriesView): Html {
  if (wanted) return html`None of these repositories is in this state.`
  if (q !== '')
    return html`No repository that you may see has an owner or a name that contains “${shownText(q)}”. <a href="/?after=">All repositories</a>`
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
  const icon =
    'commit' in row
      ? stateIcon(stateBeside(row.verdict ? [row.verdict] : [], row.summary))
      : html`<span class="icon ${row.problem === 'unavailable' ? 'failure error' : 'none'}">${row.problem === 'slow' ? 'unknown' : row.problem}</span>`
  return html`<li id="r-${row.repository.id}">
${icon}
<span><a href="/${owner}">${shownOwnName(owner)}</a> / <a href="/${owner}/${name}">${shownOwnName(name)}</a>${visibility === 'private' ? html` <span class="badge">private</span>` : ''}</span>
${'commit' in row ? commitOf(row) : html`<span class="faint note">${PROBLEMS[row.problem]}</span>`}
</li>`
}

/** Renders what failed, or what the rules lack and the newest commit, and who broke it. */
function commitOf({ repository, commit, summary, verdict, broken }: CommitRow): Html {
  const path = commitPath(repository, commit.sha)
  const newest = html`<a href="${path}">${subjectOf(commit)}</a> ${shownText(commit.author)}`
  const hasFailed = summary.failed.length > 0
  const note = hasFailed
    ? html`${failedInRow(summary, verdict ? [verdict] : [], path)}${verdict?.unmet.length === 0 ? ' · deployable' : ''} ${broken ? '' : newest}`
    : html`${verdict?.reason && shownText(verdict.reason)} ${newest}`
  const failedAt = Math.min(...summary.failed.map(({ failedAt }) => failedAt))
  const date = hasFailed ? formatTime(failedAt) : commit.date
  return html`<span class="faint note">${note}</span>
${broken ? brokenWords(repository, broken) : date ? html`<span class="faint">${formatAge(date)}</span>` : ''}`
}

/** Renders how many repositories are in which state, as links that filter the list. */
function stateLinks({ owner, q, next, rows, states, wanted }: RepositoriesView): Html | string {
  // Pages of all repositories have one part of them each.
  const isPart = q !== undefined || (owner === undefined && next?.path.startsWith('/?after=%'))
  if (isPart || (rows.length === 0 && wanted === undefined)) return ''
  const path = `/${owner ?? ''}`
  const link = ({ condition, word, icon, count }: StateCounts[number]) =>
    html`<li><a class="badge ${count > 0 ? icon : 'unreported'}" href="${path}?state=${word}"${condition === wanted ? html` aria-current="true"` : ''}>${count} ${word}</a></li>`
  return html`<ul class="states" aria-label="Repositories by state">${states.map(link)}${wanted ? html`<li><a href="${path}">Show all</a></li>` : ''}</ul>`
}
