import { COMBINED, type CombinedState, combinedCounts } from '../../domain/states.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import type { StatusSummary } from '../../store/statuses/status-summaries.ts'
import { type Html, html } from '../text/html.ts'
import { commitPath, pathOf } from '../text/repository-paths.ts'
import { enumerate, shownName, shownText, targetLink } from '../text/text.ts'
import { stateBeside } from './commit-row.ts'
import { stateBadge } from './state-summary.ts'
import type { BranchVerdict } from './verdicts.ts'

/*
 * The answer to what people ask of a commit: has it passed, may it be deployed, and if not, why?
 *
 *   ✗ failure   main: not deployable · 2 failed: lint, test · 1 not reported: e2e · 3 pending · 40 passed
 *   state       verdict                reasons                                     other counts
 */

/** What the answer follows from, and how it is shown. */
interface CommitAnswer {
  repository: Pick<ReadableRepository, 'owner' | 'name'>
  sha: string
  summary: StatusSummary
  verdicts: readonly BranchVerdict[]
  /** Paths of where the page lists checks itself, which the line only counts. */
  listed?: { [Kind in 'failed' | 'missing' | 'pending']?: string }
  /** The name of the ref, which verdicts name if there are any. */
  name?: string
  /** Follows the rest. */
  note?: Html | null
}

/** Names of one kind in a line. */
const NAMES = 3

/** Renders the answer of a commit as a box of its own. */
export function answerBox(answer: CommitAnswer): Html {
  return answerLine(answer, `facts tip ${toneOf(answer)}`)
}

/**
 * Renders in one line whether a commit has passed and may be deployed, and why not: what has failed or
 * is missing. Nothing else of a page repeats it.
 */
export function answerLine(answer: CommitAnswer, classes = 'facts'): Html {
  const { summary, listed = {} } = answer
  const [reasons, others] = [reasonsOf(answer), otherCounts(answer)]
  // Names of checks have commas between them.
  const separator = listed.failed && listed.missing ? ', ' : ' · '
  return html`<p class="${classes}" id="summary">${stateBadge(stateBeside(answer.verdicts, summary))} ${joined(reasons, separator)} <span class="faint">${reasons.length > 0 && others.length > 0 ? '· ' : ''}${joined(others, ' · ')}</span></p>`
}

/** Returns the class that colors the answer. */
export function toneOf({ summary, verdicts }: Pick<CommitAnswer, 'summary' | 'verdicts'>): string {
  return stateBeside(verdicts, summary) ?? 'unreported'
}

/**
 * Renders the contexts that failed in the row of a commit. Names that do not fit beside the first are
 * left out, so their number comes first.
 */
export function failedInRow(
  summary: StatusSummary,
  verdicts: readonly BranchVerdict[],
  commit: string,
): Html {
  const { failure } = combinedCounts(summary.counts)
  const names = failedLinks(summary, verdicts, commit)
  const before = (index: number) =>
    index > 0 ? ', ' : failure > 1 ? html`<a href="${commit}">${failure} failed</a>: ` : ''
  return html`<span class="failed">${names.map((name, index) => html`<span>${before(index)}${name}</span>`)}</span>`
}

/** Renders the verdicts, and what they and the state follow from. */
function reasonsOf({ repository, sha, summary, verdicts, listed = {}, name }: CommitAnswer): Html[] {
  const { failure, total } = combinedCounts(summary.counts)
  const missing = unmetNames(verdicts, null)
  const failedNames = () => {
    const commit = commitPath(repository, sha)
    const links = failedLinks(summary, verdicts, commit)
    return html`<span class="failed">${withRest(links, failure, commit)}</span>`
  }
  const missingNames = () => firstNames(missing, missing.length, `${pathOf(repository)}#rules`)
  return present([
    ...verdicts.map(verdictWords),
    name && verdicts.length === 0 ? html`<strong>${shownText(name)}</strong>` : null,
    total === 0 ? html`no checks have reported yet` : null,
    count(failure, 'failed', listed.failed, failedNames),
    count(missing.length, 'not reported', listed.missing, missingNames),
  ])
}

/** Renders what decides nothing. */
function otherCounts({ repository, sha, summary, verdicts, listed = {}, note }: CommitAnswer): Html[] {
  const { pending, success } = combinedCounts(summary.counts)
  const requiredNames = () => {
    const required = unmetNames(verdicts, 'pending')
    return required.length > 0 ? firstNames(required, pending, commitPath(repository, sha)) : null
  }
  return present([
    count(pending, 'pending', listed.pending, requiredNames),
    count(success, 'passed', undefined, () => null),
    note ?? null,
  ])
}

function present(parts: readonly (Html | null)[]): Html[] {
  return parts.filter((part) => part !== null)
}

function joined(parts: readonly Html[], separator: string): Html[] {
  return parts.map((part, index) => html`${index > 0 ? separator : ''}${part}`)
}

/** Renders whether the rules of a branch or tag accept a commit. */
function verdictWords({ branch, unmet }: BranchVerdict): Html {
  const isMet = unmet.length === 0
  return html`<strong>${shownText(branch)}: ${isMet ? 'deployable' : 'not deployable'}</strong>`
}

/**
 * Renders a number of checks, with a link to them if the page lists them, else with their names; null
 * if there are none.
 */
function count(
  number: number,
  word: string,
  path: string | undefined,
  names: () => Html | null,
): Html | null {
  if (number === 0) return null
  if (path) return html`<a class="nowrap" href="${path}">${number} ${word}</a>`
  const named = names()
  return html`<span class="nowrap">${number} ${word}</span>${named && html`: ${named}`}`
}

/** Returns the names of required checks that have not passed. @param combined null: not reported */
function unmetNames(verdicts: readonly BranchVerdict[], combined: CombinedState | null): string[] {
  const unmet = verdicts.flatMap((verdict) => verdict.unmet)
  const those = unmet.filter(({ state }) => (state && COMBINED[state]) === combined)
  return [...new Set(those.map(({ name }) => name))]
}

/** Renders the first of many names. @param path of all of them */
function firstNames(names: readonly string[], total: number, path: string): Html {
  const links = names.slice(0, NAMES).map((name) => html`<a href="${path}">${shownName(name)}</a>`)
  return withRest(links, total, path)
}

/** Renders the first contexts that failed, the required ones before others, with links to their logs. */
function failedLinks({ failed }: StatusSummary, verdicts: readonly BranchVerdict[], commit: string): Html[] {
  const urls = new Map(failed.map(({ context, targetUrl }) => [context, targetUrl]))
  const contexts = new Set([...unmetNames(verdicts, 'failure'), ...urls.keys()])
  return [...contexts].slice(0, NAMES).map((context) => {
    const url = urls.get(context)
    const name = shownName(context)
    return url === undefined ? html`<a href="${commit}">${name}</a>` : targetLink(url, name)
  })
}

function withRest(names: readonly Html[], total: number, path: string): Html {
  const rest = total - names.length
  return html`${enumerate(names)}${rest > 0 ? html` <a href="${path}">and ${rest} more</a>` : ''}`
}
