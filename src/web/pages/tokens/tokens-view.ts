import { EXPIRES_SOON } from '../../../auth/issue-token.ts'
import type { Session } from '../../../auth/session.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { ListedToken, TokenInfo } from '../../../store/accounts/shown-tokens.ts'
import { formatTime } from '../../../store/time.ts'
import { isExpired } from '../../../store/token-validity.ts'
import { type Choice, choiceField, field, fieldError } from '../../forms/form.ts'
import { contextChoices, type RecentContext } from '../../forms/recent-contexts.ts'
import { csrfField, time } from '../../layout/layout.ts'
import { ciLines } from '../../text/ci-lines.ts'
import { type Html, html } from '../../text/html.ts'
import { copyButton, shownText } from '../../text/text.ts'
import { expiryDays, type TokenForm } from './form.ts'

/** Repositories from which on the form has a field that filters them. It needs the script of pages. */
const FILTERED_FROM = 10
const FILTER = html`<label hidden><span class="sr">Show repositories whose name contains</span>
      <input type="search" data-filters="repositories" placeholder="Part of a name" autocomplete="off"></label>`

/** The content of `/settings/tokens`. */
export interface TokensView {
  session: Session
  tokens: ListedToken[]
  /** For which the page is; null: for none. */
  repository: ReadableRepository | null
  /** Contexts that it has reported. */
  recent: readonly RecentContext[]
  /** To which a new token can be limited. */
  repositories: readonly ReadableRepository[]
  form: TokenForm
  /** Milliseconds for which a new token may live; null: for ever. */
  maxLifetime: number | null
  /** The token just created, with a command that uses it, and OWNER/NAME if it is for one repository. */
  created?: { secret: string; name: string; example: string; repository: string }
  now: number
}

export function tokensView(view: TokensView): Html {
  const { tokens, created, now } = view
  const signInDue = tokens[0]?.signInDue ?? null
  return html`<h1>Personal access tokens</h1>
<p class="lead">Use tokens to authenticate CI jobs, scripts and git.${tokens.length > 0 ? html` <a href="#name">New token</a>` : ''}</p>
${created ? createdView(created) : ''}
<section aria-labelledby="yours">
  <h2 id="yours">Your tokens</h2>
  ${tokens.length === 0 ? EMPTY : tokenTable(tokens, now)}
  ${signInDue === null ? '' : signInView(signInDue, now)}
</section>
<section class="card" aria-labelledby="new">
  <h2 id="new">New token</h2>
  ${newTokenForm(view)}
</section>`
}

const EMPTY = html`<p class="empty">You have no tokens. Create one below, then add it to your CI as a secret.</p>`

function signInView(due: number, now: number): Html {
  const soon = due - now < EXPIRES_SOON ? html` <span class="badge pending">soon</span>` : ''
  return html`<p class="hint">They stop working at ${time(new Date(due).toISOString())}${soon} unless you
  <a href="/login/oidc?next=/settings/tokens">sign in again</a>.</p>`
}

function createdView({ secret, name, example, repository }: NonNullable<TokensView['created']>): Html {
  return html`<section class="card created" aria-labelledby="created" role="status">
  <h2 id="created">Token “${shownText(name)}” created</h2>
  <p>Copy the token now. It will not be shown again.</p>
  <div class="copy"><code id="secret" tabindex="0">${secret}</code>
    ${copyButton('secret', 'the token')}</div>
  <p>Try it:</p>
  <div class="copy"><pre id="example" tabindex="0">${example}</pre>
    ${copyButton('example', 'the example')}</div>
  ${ciLines(repository)}
</section>`
}

function tokenTable(tokens: ListedToken[], now: number): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="yours"><table class="tokens">
  <thead><tr><th scope="col">Name</th><th scope="col">Token</th><th scope="col">Scope</th><th scope="col">Limits</th><th scope="col">Created</th>
    <th scope="col">Expires</th><th scope="col">Last used</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
  <tbody>${tokens.map((token) => tokenRow(token, now))}</tbody>
</table></div>`
}

function tokenRow(token: ListedToken, now: number): Html {
  return html`<tr>
  <th scope="row">${shownText(token.name)}</th>
  <td data-column="Token"><code>${token.prefix}…</code></td>
  <td data-column="Scope">${token.scopes || html`<span class="faint">none</span>`}</td>
  <td data-column="Limits">${tokenLimits(token)}</td>
  <td data-column="Created">${time(formatTime(token.createdAt))}</td>
  <td data-column="Expires">${expiry(token.expiresAt, now)}</td>
  <td data-column="Last used">${token.lastUsedAt === null ? html`<span class="faint">never</span>` : time(formatTime(token.lastUsedAt))}</td>
  <td class="action">${token.isReplaced || isExpired(token.expiresAt, now) ? '' : html`<a href="/settings/tokens/${token.id}/rotate">Rotate<span class="sr"> ${token.name}</span></a> `}<a class="danger" href="/settings/tokens/${token.id}/revoke">Revoke<span class="sr"> ${token.name}</span></a></td>
</tr>`
}

function tokenLimits({ repositories, hiddenRepositories, contexts, push }: TokenInfo): Html {
  const limits = [
    ...(repositories?.length === 0 && hiddenRepositories === 0
      ? [html`<li>no repository: all were deleted</li>`]
      : []),
    ...(repositories ?? []).map((name) => html`<li>${name}</li>`),
    ...Array.from({ length: hiddenRepositories }, () => html`<li>a repository that you cannot see</li>`),
    ...(contexts
      ? [html`<li>contexts ${contexts.map((pattern) => html`<code>${shownText(pattern)}</code> `)}</li>`]
      : []),
    ...(push ? [] : [html`<li>no push</li>`]),
  ]
  return limits.length > 0 ? html`<ul class="limits">${limits}</ul>` : html`<span class="faint">none</span>`
}

function expiry(expiresAt: number | null, now: number): Html {
  if (expiresAt === null) return html`<span class="faint">never</span>`
  const moment = time(new Date(expiresAt).toISOString())
  if (isExpired(expiresAt, now)) return html`${moment} <span class="badge failure">expired</span>`
  return isExpired(expiresAt, now + EXPIRES_SOON)
    ? html`${moment} <span class="badge pending">soon</span>`
    : moment
}

function newTokenForm({
  session,
  repository,
  recent,
  repositories,
  form,
  maxLifetime,
  now,
}: TokensView): Html {
  const { name, repoScope, push, repositories: chosen, expiry, date, errors } = form
  const offered = new Set(recent.map(({ context }) => context))
  const gone = form.chosenContexts.filter((context) => !offered.has(context))
  const query = repository ? `?repository=${repository.owner}/${repository.name}` : ''
  const choices: Choice[] = [
    ...expiryDays(maxLifetime).map((days): Choice => [String(days), `in ${days} days`]),
    ['date', 'on a date'],
    [
      'none',
      maxLifetime === null
        ? 'never'
        : `as late as possible: ${new Date(now + maxLifetime).toISOString().slice(0, 10)}`,
    ],
  ]
  const shownChoice = choices.some(([value]) => value === expiry) ? expiry : 'none'
  return html`<form method="post" action="/settings/tokens${query}">
  ${csrfField(session)}
  ${field(
    {
      name: 'name',
      label: 'Name',
      hint: 'What the token is for, for example “CI of rocket”.',
      error: errors.name,
    },
    (attributes) => html`<input ${attributes} value="${name}" required maxlength="100" autocomplete="off">`,
  )}
  <fieldset class="field">
    <legend>Scope</legend>
    <label class="check"><input type="checkbox" name="scope" value="repo" ${repoScope ? 'checked' : ''}
      aria-describedby="scope-hint"> <code>repo</code></label>
    <p class="hint" id="scope-hint">Read and report statuses, fetch and push, with your own permissions.</p>
    <label class="check"><input type="checkbox" name="push" value="yes" ${push ? 'checked' : ''}> allow <code>git push</code></label>
  </fieldset>
  <fieldset class="field" aria-describedby="repositories-hint${errors.repositories ? ' repositories-error' : ''}">
    <legend>Repositories</legend>
    ${
      repositories.length === 0
        ? html`<p class="empty">There is no repository that you can write to.</p>`
        : html`${repositories.length > FILTERED_FROM ? FILTER : ''}<div class="choices" id="repositories">${repositories.map((repository) => repositoryChoice(repository, chosen))}</div>`
    }
    <p class="hint" id="repositories-hint">Select the repositories that the token can use. With none selected, it can use all that you have access to.</p>
    ${fieldError('repositories', errors.repositories)}
  </fieldset>
  ${contextChoices(recent, form.chosenContexts)}
  ${field(
    {
      name: 'contexts',
      label: recent.length === 0 ? 'Contexts' : 'Other contexts',
      hint: html`Patterns of the contexts that it may report, one per line, for example <code>ci/*</code>.
      <code>*</code> stands for any characters. ${recent.length === 0 ? 'Empty' : 'None chosen or typed'}: all.`,
      error: errors.contexts,
    },
    (attributes) => html`<textarea ${attributes} rows="3" autocomplete="off" spellcheck="false">
${[...gone, form.contexts].filter(Boolean).join('\n')}</textarea>`,
  )}
  ${choiceField({ name: 'expiry', label: 'Expires', error: errors.expiry }, choices, shownChoice)}
  <div data-shown-for="expiry=date">${field(
    { name: 'date', label: 'Date (for “on a date”)', error: errors.date },
    (attributes) => html`<input ${attributes} type="date" value="${date}">`,
  )}</div>
  <button type="submit">Create token</button>
</form>`
}

function repositoryChoice({ id, owner, name }: ReadableRepository, chosen: ReadonlySet<number>): Html {
  return html`<label class="check"><input type="checkbox" name="repository" value="${id}" ${chosen.has(id) ? 'checked' : ''}> ${owner}/${name}</label>`
}
