import { shortId } from '../../../domain/commit-id.ts'
import { allows } from '../../../domain/permissions.ts'
import type { RefRule } from '../../../domain/ref-rules.ts'
import { isTagPattern } from '../../../domain/rule-patterns.ts'
import type { Ref, Refs } from '../../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { repositoryHead } from '../../layout/repository-head.ts'
import { type Broken, brokenWords } from '../../statuses/broken.ts'
import { answerLine, failedInRow, toneOf } from '../../statuses/commit-answer.ts'
import { iconOf, type SummarizedCommit, stateOfSummary, subjectOf } from '../../statuses/commit-row.ts'
import { ruleMarks } from '../../statuses/rule-marks.ts'
import type { BranchVerdict } from '../../statuses/verdicts.ts'
import { ciLines } from '../../text/ci-lines.ts'
import { type Html, html } from '../../text/html.ts'
import { commitPath, pathOf, refQuery } from '../../text/repository-paths.ts'
import { copyButton, enumerate, formatAge, shownText, visibleText } from '../../text/text.ts'

/** The last commit of a branch that passed its required checks. */
export interface LastPassedCommit {
  sha: string
  /** ISO 8601; null if the commit has none. */
  date: string | null
}

/** What the page of a repository shows, and the verdicts on `tip`. */
export interface RepositoryView {
  verdicts: readonly BranchVerdict[]
  /** null if the newest commit passed, no rule matches, or none passed. */
  lastPassed: LastPassedCommit | null
  repository: ReadableRepository
  refs: Refs
  /** null if there is nothing to show: HEAD is a branch without commits. */
  ref: Ref | null
  /** The newest commit of the ref, on the first page. */
  tip: SummarizedCommit | undefined
  /** Who broke the ref, if its newest commit failed or its checks run again. */
  broken: Broken | undefined
  branches: (Ref & Pick<SummarizedCommit, 'summary'>)[]
  /** Number of branches that failed, of all. */
  redBranches: number
  commits: SummarizedCommit[]
  /** What the next page comes after; null on the last page. */
  older: readonly string[] | null
  isFirstPage: boolean
  rules: readonly RefRule[]
  origin: string
}

/** Branches, and rules, that are shown before the others are unfolded. */
const UNFOLDED = 6

/** Renders a repository: its branches with their states, and a page of the commits of one. */
export function repositoryView(view: RepositoryView): Html {
  const { repository, refs, ref, commits, isFirstPage, origin } = view
  const { permission } = repository
  const isEmpty = refs.head === null && refs.branches.length === 0 && refs.tags.length === 0
  return html`${repositoryHead(repository, { tab: 'commits', shown: { refs, ref }, isTitle: true, suggests: true })}
${
  isEmpty
    ? emptyView(view)
    : html`${tipView(view)}
<div class="columns">
  ${refsView(view)}
  <section class="history" aria-labelledby="commits">
    <h2 id="commits">${isFirstPage ? 'Commits' : 'Older commits'}${ref?.name ? html` of ${shownText(ref.name)}` : ''}</h2>
    ${
      ref === null
        ? unbornView(view)
        : html`<ul class="list rows">${commits.map((commit) => commitItem(view, commit))}</ul>
    ${pager(view)}`
    }
  </section>
  <section class="extras">
    ${rulesView(view.rules)}
    ${cloneView(repository, origin)}
    ${badgeView(view)}
  </section>
</div>`
}
${
  allows(permission, 'write')
    ? html`<section class="report">
  <h2>Report from CI</h2>
  <p><a href="/settings/tokens?repository=${repository.owner}/${repository.name}#new">Create a token for this repository</a></p>
  ${ciLines(`${repository.owner}/${repository.name}`)}
</section>`
    : ''
}`
}

/**
 * Renders the combined state of the ref of the page, and whether its newest commit may be deployed.
 */
function tipView(view: RepositoryView): Html | string {
  const { repository, ref, tip, broken, verdicts } = view
  if (!ref || !tip) return ''
  const name = ref.name || 'HEAD'
  return html`<section class="tip ${toneOf({ summary: tip.summary, verdicts })}" aria-label="State of ${visibleText(name)}">
  ${answerLine({ repository, sha: tip.commit.sha, summary: tip.summary, verdicts, name })}
  ${broken ? html`<p id="broken">${brokenWords(repository, broken)}</p>` : ''}
  ${lastPassedView(view)}
</section>`
}

/** Renders which commit of the branch was the last one to pass its required checks. */
function lastPassedView({ repository, lastPassed }: RepositoryView): Html | string {
  if (lastPassed === null) return ''
  const { sha, date } = lastPassed
  return html`<p class="facts" id="last-passed">Last commit that passed:
    <a href="${commitPath(repository, sha)}"><code>${shortId(sha)}</code></a> ${date ? html`<span class="faint">${formatAge(date)}</span>` : ''}</p>`
}

/** Renders the newest branches with their states. */
function refsView(view: RepositoryView): Html {
  const { repository, refs, branches, redBranches, ref } = view
  const item = (branch: RepositoryView['branches'][number]) => {
    const current = ref?.kind === 'branch' && ref.name === branch.name
    return html`<li class="ref">${iconOf(branch.summary)}
<a href="${pathOf(repository)}${refQuery(refs, branch)}"${current ? html` aria-current="page"` : ''}>${shownText(branch.name)}</a>
<span class="faint">${branch.name === refs.defaultBranch ? 'default · ' : ''}${branch.date ? formatAge(branch.date) : ''}</span></li>`
  }
  const [shown, folded] = [branches.slice(0, UNFOLDED), branches.slice(UNFOLDED)]
  const hidden = refs.branches.length - branches.length
  const over = refs.more ? 'over ' : ''
  const number = (count: number) => count.toLocaleString('en')
  return html`<nav class="refs" aria-label="Branches and tags">
    ${redBranches > 0 && refs.branches.length > 1 ? html`<p class="hint"><span class="failed">${number(redBranches)}</span> of ${over}${number(refs.branches.length)} branches failed</p>` : ''}
    <ul class="list">${shown.map(item)}</ul>
    ${
      folded.length > 0
        ? html`<details><summary>${over}${number(folded.length + hidden)} more ${folded.length + hidden === 1 ? 'branch' : 'branches'}</summary>
      <ul class="list">${folded.map(item)}</ul>
      ${hidden > 0 ? html`<p class="hint">${number(hidden)} of these are not listed. Find them by name.</p>` : ''}
    </details>`
        : ''
    }
  </nav>`
}

/** Renders a commit of the history. What failed on the newest one is said above. */
function commitItem({ repository, tip }: RepositoryView, { commit, summary }: SummarizedCommit): Html {
  const path = commitPath(repository, commit.sha)
  const hasNames = summary.failed.length > 0 && commit.sha !== tip?.commit.sha
  return html`<li id="c-${commit.sha}">${iconOf(summary)}
<a class="subject" href="${path}">${subjectOf(commit)}</a>
${hasNames ? html`<span class="faint note">${failedInRow(summary, [], path)}</span>\n` : ''}<span class="faint"><a href="${path}"><code>${shortId(commit.sha)}</code></a> ${shownText(commit.author)} ${commit.date ? formatAge(commit.date) : ''}</span></li>`
}

function pager({ repository, refs, ref, older, isFirstPage }: RepositoryView): Html | string {
  if (older === null && isFirstPage) return ''
  const query = refQuery(refs, ref)
  return html`<p class="pager">
    ${isFirstPage ? '' : html`<a href="${pathOf(repository)}${query}">Newest</a>`}
    ${older ? html`<a rel="next" href="${pathOf(repository)}${query === '' ? '?' : `${query}&`}after=${older.join(',')}">Older</a>` : html`<span class="faint">There are no older commits.</span>`}
  </p>`
}

/**
 * Renders which checks a commit must have passed before a push moves a branch to it, or creates a tag
 * of it.
 */
function rulesView(rules: readonly RefRule[]): Html {
  if (rules.length === 0)
    return html`<h2 id="rules">Required checks</h2><p class="hint">None: every push is accepted.</p>`
  const [tags, branches] = [
    rules.filter(({ refPattern }) => isTagPattern(refPattern)),
    rules.filter(({ refPattern }) => !isTagPattern(refPattern)),
  ]
  return html`<h2 id="rules">Required checks</h2>
    ${ruleGroup('A push to these branches is accepted when these checks have passed.', branches)}
    ${ruleGroup('These tags are created on commits whose checks have passed, and are never moved or deleted.', tags)}`
}

function ruleGroup(hint: string, rules: readonly RefRule[]): Html | string {
  if (rules.length === 0) return ''
  const item = (rule: RefRule) => html`<div><dt>${shownText(rule.refPattern)}</dt>
      <dd>${enumerate(rule.required.map(shownText))}${ruleMarks(rule)}</dd></div>`
  const [shown, folded] = [rules.slice(0, UNFOLDED), rules.slice(UNFOLDED)]
  return html`<p class="hint">${hint}</p>
    <dl class="rules">${shown.map(item)}</dl>
    ${
      folded.length > 0
        ? html`<details><summary>${folded.length} more rules</summary><dl class="rules">${folded.map(item)}</dl></details>`
        : ''
    }`
}

function cloneView({ owner, name }: ReadableRepository, origin: string): Html {
  return html`<h2>Clone</h2>
    <div class="copy"><code id="clone">git clone ${origin}/${owner}/${name}.git</code>${copyButton('clone', 'the clone command')}</div>`
}

function badgeView({ repository, refs, ref, tip, origin }: RepositoryView): Html | string {
  if (repository.visibility === 'private') return ''
  const url = `${origin}${pathOf(repository)}`
  const query = refQuery(refs, ref)
  // A cached badge of the page itself must not contradict it.
  const version =
    tip && `${query === '' ? '?' : '&'}v=${shortId(tip.commit.sha)}-${stateOfSummary(tip.summary)}`
  const markdown = `[![Commit status](${url}/badge.svg${query})](${url}${query})`
  return html`<h2>Badge</h2>
    <p><img src="${pathOf(repository)}/badge.svg${query}${version ?? ''}" alt="Badge with the state of ${visibleText(ref?.name ?? '') || 'HEAD'}" height="20"></p>
    <div class="copy"><code id="badge">${markdown}</code>${copyButton('badge', 'the Markdown of the badge')}</div>`
}

function emptyView({ repository, origin, refs, rules }: RepositoryView): Html {
  const { owner, name, permission } = repository
  const push = `git push ${origin}/${owner}/${name}.git HEAD:${refs.defaultBranch ?? 'main'}`
  return html`<p class="empty">Nothing has been pushed yet.</p>
  ${
    allows(permission, 'write')
      ? html`<p>Push your first commit:</p>
    <div class="copy"><code id="push">${push}</code>${copyButton('push', 'the push command')}</div>`
      : ''
  }
  ${cloneView(repository, origin)}
  ${rulesView(rules)}`
}

/** Renders why there are no commits although there are branches. */
function unbornView({ refs, repository }: RepositoryView): Html {
  const { owner, name } = repository
  return html`<p class="empty">The default branch <strong>${shownText(refs.defaultBranch ?? 'HEAD')}</strong> does not exist.
    Choose a branch. An administrator sets the default branch with
    <code>repo default-branch ${owner}/${name} BRANCH</code>.</p>`
}
