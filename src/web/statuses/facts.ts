import { COMBINED, type CombinedState, combinedCounts } from '../../domain/states.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import type { StatusSummary } from '../../store/statuses/status-summaries.ts'
import { type Html, html } from '../parts/html.ts'
import { commitPath, pathOf } from '../parts/repository-paths.ts'
import { enumerate, shownName, shownText, targetLink } from '../parts/text.ts'
import { stateOfSummary } from './commit-row.ts'
import { stateBadge } from './state-summary.ts'
import type { BranchVerdict } from './verdicts.ts'

/** What a line says of a commit. */
export interface Facts {
  repository: Pick<ReadableRepository, 'owner' | 'name'>
  sha: string
  summary: StatusSummary
  verdicts: readonly BranchVerdict[]
  /** Where the page lists checks itself, which the line only counts. */
  listed?: { [Fact in 'failed' | 'missing' | 'pending']?: string }
  /** The name of the ref, which verdicts name if there are any. */
  name?: string
  /** Follows the facts. */
  note?: Html | null
}

/** Names of one kind in a line. */
const NAMES = 3

/** Renders the answer of a commit as a box of its own. */
export function banner(facts: Facts): Html {
  return factLine(facts, `facts tip ${toneOf(facts)}`)
}

/** Returns the class that colors the answer: a success that a rule does not accept is none yet. */
export function toneOf({ summary, verdicts }: Pick<Facts, 'summary' | 'verdicts'>): string {
  const state = stateOfSummary(summary) ?? 'unreported'
  return state === 'success' && verdicts.some(({ unmet }) => unmet.length > 0) ? 'pending' : state
}

/**
 * Renders in one line whether a commit has passed and may be deployed, and why not: what has failed or
 * is missing. Nothing else of a page repeats it.
 */
export function factLine(facts: Facts, classes = 'facts'): Html {
  const { repository, sha, summary, verdicts, listed = {}, name, note } = facts
  const commit = commitPath(repository, sha)
  const { failure, pending, success, total } = combinedCounts(summary.counts)
  const missing = unmetNames(verdicts, null)
  const reasons = [
    ...verdicts.map(verdictWords),
    ...(name && verdicts.length === 0 ? [html`<strong>${shownText(name)}</strong>`] : []),
    ...(total === 0 ? [html`no checks have reported yet`] : []),
    fact(failure, 'failed', listed.failed, () => failedNames(summary, verdicts, commit)),
    fact(missing.length, 'not reported', listed.missing, () =>
      namesOf(missing, missing.length, `${pathOf(repository)}#rules`),
    ),
  ].filter((part) => part !== null)
  const others = [
    fact(pending, 'pending', listed.pending, () => {
      const required = unmetNames(verdicts, 'pending')
      return required.length > 0 ? namesOf(required, pending, commit) : null
    }),
    fact(success, 'passed', undefined, () => null),
    note ?? null,
  ].filter((part) => part !== null)
  // Names of checks have commas between them.
  const separator = listed.failed && listed.missing ? ', ' : ' · '
  return html`<p class="${classes}" id="summary">${stateBadge(stateOfSummary(summary))} ${joined(reasons, separator)} <span class="faint">${reasons.length > 0 && others.length > 0 ? '· ' : ''}${joined(others, ' · ')}</span></p>`
}

function joined(parts: readonly Html[], separator: string): Html[] {
  return parts.map((part, index) => html`${index > 0 ? separator : ''}${part}`)
}

/** Renders a count, with a link to the checks if the page lists them, else with their names. */
function fact(count: number, word: string, path: string | undefined, names: () => Html | null): Html | null {
  if (count === 0) return null
  if (path) return html`<a class="nowrap" href="${path}">${count} ${word}</a>`
  const named = names()
  return html`<span class="nowrap">${count} ${word}</span>${named && html`: ${named}`}`
}

/** Returns the names of required checks that have not passed. @param combined null: not reported */
function unmetNames(verdicts: readonly BranchVerdict[], combined: CombinedState | null): string[] {
  const unmet = verdicts.flatMap((verdict) => verdict.unmet)
  const those = unmet.filter(({ state }) => (state && COMBINED[state]) === combined)
  return [...new Set(those.map(({ name }) => name))]
}

/** Renders the first of many names. @param path of all of them */
function namesOf(names: readonly string[], total: number, path: string): Html {
  return withRest(
    names.slice(0, NAMES).map((name) => html`<a href="${path}">${shownName(name)}</a>`),
    total,
    path,
  )
}

/** Renders the contexts that failed, the required ones first, with links to their logs. */
function failedNames(summary: StatusSummary, verdicts: readonly BranchVerdict[], commit: string): Html {
  const names = failedLinks(summary, verdicts, commit)
  return html`<span class="failed">${withRest(names, combinedCounts(summary.counts).failure, commit)}</span>`
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

/** Renders whether the rules of a branch or tag accept a commit. */
function verdictWords({ branch, unmet }: BranchVerdict): Html {
  const isMet = unmet.length === 0
  return html`<strong>${shownText(branch)}: ${isMet ? 'deployable' : 'not deployable'}</strong>`
}
