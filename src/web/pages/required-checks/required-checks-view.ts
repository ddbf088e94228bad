import type { Session } from '../../../auth/session.ts'
import type { LastPassed } from '../../../branches/last-passed.ts'
import { shortId } from '../../../domain/commit-id.ts'
import { TAGS } from '../../../domain/ref-names.ts'
import type { RefRule } from '../../../domain/ref-rules.ts'
import { isTagPattern } from '../../../domain/rule-patterns.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { ruleState } from '../../../store/repositories/rules.ts'
import { field } from '../../forms/form.ts'
import { contextChoices, type RecentContext } from '../../forms/recent-contexts.ts'
import { csrfField } from '../../layout/layout.ts'
import { repositoryHead } from '../../layout/repository-head.ts'
import { ruleMarks } from '../../statuses/rule-marks.ts'
import { type Html, html } from '../../text/html.ts'
import { settingsPath } from '../../text/repository-paths.ts'
import { enumerate, shownText } from '../../text/text.ts'
import { openChecks, type ReportersForm, type Reporting, reportersView } from './reporters-view.ts'

/** The form for a rule as filled in, and what is wrong with it. */
export interface RuleForm {
  refPattern: string
  required: readonly string[]
  /** Names of users. */
  bypass: readonly string[]
  /** `ruleState` of the rule when the form was made. */
  seen: string
  isPreview: boolean
  error?: string
  bypassError?: string
}

/**
 * What a commit of a branch, or a tag, would have got. `reason`: why it would not have passed; null
 * if it would.
 */
export interface Preview {
  subject: Html | string
  sha: string
  reason: string | null
}

/** What the page shows besides what is stored. */
export interface ChecksForms {
  rule: RuleForm
  reporters: ReportersForm
}

interface RequiredChecksView {
  session: Session
  repository: ReadableRepository
  rules: readonly RefRule[]
  recent: readonly RecentContext[]
  /** The branch whose commits `recent` is of, and `preview` of a rule of branches; null if none. */
  branch: string | null
  preview: readonly Preview[]
  /** The last commit of `branch` that would have passed; null if nothing can be said. */
  lastPassed: LastPassed | null
  /** What to say about the pattern of the form; null if nothing. */
  note: string | null
  form: RuleForm
  reporting: Reporting
}

const PAGE = '/checks'

export function requiredChecksView(view: RequiredChecksView): Html {
  const { repository, rules } = view
  return html`${repositoryHead(repository, { tab: 'rules' })}
<h1>Rules</h1>
<nav class="parts" aria-label="On this page"><a href="#rule">Require a check</a><a href="#reporters">Who may report</a></nav>
<section aria-labelledby="rules">
  <h2 id="rules">Required checks</h2>
  <p class="hint">Today's rules decide about old commits too: a check that is required from now on has not reported on them.</p>
  ${
    rules.length === 0
      ? html`<p class="empty">There are no rules: every push is accepted.</p>`
      : html`${ruleTable(
          view,
          'Branches',
          rules.filter(({ refPattern }) => !isTagPattern(refPattern)),
        )}
  ${ruleTable(
    view,
    'Tags',
    rules.filter(({ refPattern }) => isTagPattern(refPattern)),
  )}
  ${openChecks(view.reporting, rules, settingsPath(repository, PAGE))}`
  }
</section>
${view.form.isPreview ? previewView(view) : ''}
${ruleForm(view)}
${reportersView(view)}`
}

function ruleTable(view: RequiredChecksView, label: string, rules: readonly RefRule[]): Html | string {
  if (rules.length === 0) return ''
  return html`<div class="scroll" tabindex="0" role="group" aria-label="${label}"><table>
    <thead><tr><th scope="col">${label}</th><th scope="col">Required checks</th><th scope="col">May bypass</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
    <tbody>${rules.map((rule) => ruleRow(view, rule))}</tbody>
  </table></div>`
}

function ruleRow({ session, repository }: RequiredChecksView, rule: RefRule): Html {
  const { refPattern, required, bypass } = rule
  const path = settingsPath(repository, PAGE)
  return html`<tr>
  <th scope="row">${shownText(refPattern)}</th>
  <td data-column="Required checks">${enumerate(required.map(shownText))}${ruleMarks(rule)}</td>
  <td data-column="May bypass">${bypass.length === 0 ? html`<span class="faint">nobody</span>` : bypass.map(({ name }) => name).join(', ')}</td>
  <td class="action"><form class="row" method="post" action="${path}">
    ${csrfField(session)}<input type="hidden" name="branch" value="${refPattern}"><input type="hidden" name="seen" value="${ruleState(rule)}">
    <a href="${path}?rule=${encodeURIComponent(refPattern)}#rule">Change<span class="sr"> ${refPattern}</span></a>
    <button class="quiet" type="submit" name="change" value="remove">Remove<span class="sr"> ${refPattern}</span></button>
  </form></td>
</tr>`
}

function previewView({ repository, branch, preview, lastPassed, form, note }: RequiredChecksView): Html {
  const item = ({ subject, sha, reason }: Preview) => html`<li class="commit">
  <span class="badge ${reason === null ? 'success' : 'failure'}">${reason === null ? 'accepted' : 'refused'}</span>
  <span class="subject">${subject}</span>
  <span class="faint"><code>${shortId(sha)}</code>${reason === null ? '' : html` · ${shownText(reason)}`}</span></li>`
  const isOfTags = isTagPattern(form.refPattern)
  const what = isOfTags ? 'tags that match' : html`commits of ${shownText(branch ?? form.refPattern)}`
  return html`<section aria-labelledby="preview">
  <h2 id="preview">What the newest ${what} would have got</h2>
  ${preview.length === 0 ? html`<p class="empty">There are no ${isOfTags ? 'tags that match' : 'commits'}.</p>` : html`<ul class="list">${preview.map(item)}</ul>`}
  ${note === null ? '' : html`<p class="hint">${shownText(form.refPattern)}: ${shownText(note)}.</p>`}
  ${lastPassed === null ? '' : html`<p class="hint" id="last-passed">${lastPassedText(repository, lastPassed)}</p>`}
  <p class="hint">Nothing is saved yet.</p>
</section>`
}

function lastPassedText(
  { owner, name }: ReadableRepository,
  { branch, commit, lookedAt, next }: LastPassed,
): Html {
  if (commit)
    return html`The last passed commit of ${shownText(branch)} will be
    <a href="/${owner}/${name}/commits/${commit.sha}"><code>${shortId(commit.sha)}</code></a>.`
  const commits = next === null ? '' : html` among its newest ${lookedAt} commits`
  return html`${shownText(branch)} will have no passed commit${commits} until the required checks report.`
}

function ruleForm({ session, repository, recent, form, rules }: RequiredChecksView): Html {
  const { refPattern, required, bypass, seen, error, bypassError } = form
  const isChange = rules.some((rule) => rule.refPattern === refPattern) && seen !== ruleState(null)
  const offered = new Set(recent.map(({ context }) => context))
  const typed = required.filter((pattern) => !offered.has(pattern))
  const isOfBranch = /^(the )?pattern/i.test(error ?? '')
  return html`<section class="card" aria-labelledby="rule">
  <h2 id="rule">${isChange ? html`Change the rule for ${shownText(refPattern)}` : 'New rule'}</h2>
  <form method="post" action="${settingsPath(repository, PAGE)}">
    ${csrfField(session)}<input type="hidden" name="seen" value="${seen}">
    ${field(
      {
        name: 'branch',
        label: 'Branches or tags',
        hint: html`A name, or a pattern: <code>*</code> stands for any characters. One that begins with <code>${TAGS}</code> is
          about tags. Upper and lower case differ.`,
        error: isOfBranch ? error : undefined,
      },
      (attributes) =>
        html`<input ${attributes} value="${refPattern}" required autocomplete="off" spellcheck="false" ${isChange ? 'readonly' : ''}>`,
    )}
    ${contextChoices(recent, required)}
    ${field(
      {
        name: 'required',
        label: 'Other required checks',
        hint: html`One per line, as names or patterns. At least one check must be named exactly: a pattern is met by the first
          check that matches, whatever has not reported yet.`,
        error: isOfBranch ? undefined : error,
      },
      (attributes) => html`<textarea ${attributes} rows="3" autocomplete="off" spellcheck="false">
${typed.join('\n')}</textarea>`,
    )}
    ${field(
      {
        name: 'bypass',
        label: 'Users who may push without them',
        hint: 'One name per line.',
        error: bypassError,
      },
      (attributes) => html`<textarea ${attributes} rows="2" autocomplete="off" spellcheck="false">
${bypass.join('\n')}</textarea>`,
    )}
    <div class="row"><button type="submit" name="change" value="set">Save rule</button>
      <button class="quiet" type="submit" name="change" value="preview">Preview</button></div>
  </form>
</section>`
}
