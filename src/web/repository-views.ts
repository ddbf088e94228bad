import { html } from 'hono/html'
import { combinedState, presentStates } from '../domain/combined-state.ts'
import type { Commit } from '../git/log.ts'
import type { ListedRepository } from '../store/repository-listing.ts'
import type { StatusCounts } from '../store/statuses.ts'
import { ciLines } from './ci-lines.ts'
import { type Html, time } from './layout.ts'
import type { Visitor } from './session-auth.ts'
import { stateBadge } from './state-badge.ts'

/** Renders the start page. @param last the last repository of this page, if there are more */
export function repositoriesView(
  repositories: ListedRepository[],
  visitor: Visitor,
  last?: ListedRepository,
): Html {
  const empty = visitor.user
    ? html`<p class="empty">You do not have access to any repositories. An administrator creates one with
        <code>npm run cli -- repo create OWNER/NAME</code>.</p>`
    : html`<p class="empty">There are no public repositories. <a href="/login">Sign in</a> to see yours.</p>`
  return html`<h1>Repositories</h1>
${repositories.length === 0 ? empty : html`<ul class="list">${repositories.map(repositoryItem)}</ul>`}
${last ? html`<p><a href="/?after=${encodeURIComponent(`${last.owner}/${last.name}`)}">More repositories</a></p>` : ''}`
}

function repositoryItem({ owner, name, visibility }: ListedRepository): Html {
  return html`<li><a href="/${owner}/${name}"><span class="faint">${owner} /</span> <strong>${name}</strong></a>
  ${visibility === 'private' ? html`<span class="badge">private</span>` : ''}</li>`
}

/** A commit with the number of its statuses by state. */
export type CountedCommit = Commit & { counts: StatusCounts }

/** Renders a repository's newest commits with their combined states. */
export function repositoryView(
  repository: ListedRepository,
  commits: readonly CountedCommit[],
  origin: string,
): Html {
  const { owner, name, visibility, permission } = repository
  const clone = `${origin}/${owner}/${name}.git`
  const empty = html`<p class="empty">This repository is empty.
    ${permission === 'write' ? html`Push your first commit: <code>git push ${clone} HEAD:main</code>` : ''}</p>`
  return html`<h1><span class="faint">${owner} /</span> ${name}
  ${visibility === 'private' ? html`<span class="badge">private</span>` : ''}</h1>
<p class="lead">Clone: <code>git clone ${clone}</code></p>
<h2>Newest commits</h2>
${commits.length === 0 ? empty : html`<ul class="list">${commits.map((commit) => commitItem(repository, commit))}</ul>`}
${
  permission === 'write'
    ? html`<h2>Report from CI</h2>
  ${ciLines(origin)}`
    : ''
}`
}

function commitItem(
  { owner, name }: ListedRepository,
  { sha, author, date, subject, counts }: CountedCommit,
): Html {
  const total = counts.pending + counts.success + counts.failure + counts.error
  return html`<li class="commit">
  ${stateBadge(combinedState(presentStates(counts)))}
  <a href="/${owner}/${name}/commits/${sha}">${subject || html`<em>no message</em>`}</a>
  <span class="faint">${total > 0 ? `${counts.success} of ${total} passed · ` : ''}<code>${sha.slice(0, 10)}</code>
    · ${author}${date ? html` · ${time(date)}` : ''}</span>
</li>`
}
