import { gitWith } from './git.ts'
import type { Random } from './random.ts'

/** What CI says of a commit; undefined: it did not run. */
type Report = 'success' | 'failure' | 'error' | 'pending' | undefined

/** A commit that a team made. */
interface Made {
  author: string
  parents: number[]
  report: Report
}

/** What happened to a branch: it moved to a commit, which brought others. */
interface Landing {
  /** Number of the commit that the branch was at then. */
  at: number
  /** Who wrote the commits that came with it. */
  authors: string[]
  /** Who had broken the branch by then; null if it was whole. */
  breaker: string | null
  report: Report
}

/** What a team did, and so knows. */
export interface TeamHistory {
  commits: Made[]
  landings: Landing[]
  /** Pushes: from where they moved the branch, and where to. */
  moves: [number | null, number][]
}

const PEOPLE = ['Ada', 'Bo', 'Cem', 'Dana', 'Eve', 'Finn', 'Gül']

/**
 * Lets a team work on a branch, which is broken in the end: people push, merge topics, break and
 * repair it, while CI runs now and then, is cancelled, or has not ended.
 *
 * @param pulls whether somebody also merges the branch into a topic, and pushes that
 */
export function workTogether(random: Random, pulls: boolean): TeamHistory {
  const commits: Made[] = []
  const landings: Landing[] = []
  const moves: TeamHistory['moves'] = []
  const isRed: boolean[] = []
  let breaker: string | null = null
  const person = () => PEOPLE[random.below(PEOPLE.length)] ?? ''
  const report = (red: boolean): Report => {
    const kind = random.below(10)
    if (kind < 6) return red ? 'failure' : 'success'
    return kind === 6 ? 'error' : kind === 7 ? 'pending' : undefined
  }
  const make = (parents: number[], red: boolean, author = person()) => {
    commits.push({ author, parents, report: report(red) })
    isRed.push(red)
    return commits.length - 1
  }
  const tip = () => landings.at(-1)?.at ?? null
  const land = (at: number, brought: readonly number[]) => {
    const authors = brought.map((number) => commits[number]?.author ?? '')
    landings.push({ at, authors, breaker, report: commits[at]?.report })
  }

  const push = (breaks: boolean, repairs: boolean) => {
    const [from, count] = [tip(), 1 + random.below(2)]
    const culprit = breaks ? random.below(count) : -1
    for (let index = 0; index < count; index++) {
      if (repairs) breaker = null
      const parents = tip() === null ? [] : [tip() ?? 0]
      const at = make(parents, breaker !== null || index === culprit)
      if (index === culprit) breaker = commits[at]?.author ?? ''
      land(at, [at])
    }
    moves.push([from, tip() ?? 0])
  }

  const merge = (breaks: boolean) => {
    const [from, fork] = [tip() ?? 0, landings[random.below(landings.length)]?.at ?? 0]
    const [count, brought] = [1 + random.below(3), [] as number[]]
    // The merge itself may be what breaks the branch.
    const culprit = breaks ? random.below(count + 1) : -1
    let [last, topicBreaker]: [number, string | null] = [fork, null]
    for (let index = 0; index < count; index++) {
      last = make([last], isRed[last] === true || index === culprit)
      if (index === culprit) topicBreaker = commits[last]?.author ?? ''
      brought.push(last)
    }
    const isPull = pulls && fork !== from && random.below(3) === 0
    const at = make(isPull ? [last, from] : [from, last], breaker !== null || breaks)
    if (culprit === count) topicBreaker = commits[at]?.author ?? ''
    breaker ??= topicBreaker
    land(at, [...brought, at])
    moves.push([from, at])
  }

  push(false, false)
  for (let step = 0; step < 4 + random.below(14); step++) {
    const isBroken = breaker !== null
    const kind = random.below(6)
    if (isBroken && kind === 0) push(false, true)
    else if (kind < 3) push(!isBroken && kind === 2, false)
    else merge(!isBroken && kind === 5)
  }
  if (breaker === null) push(true, false)
  // The page is asked when CI has run on the newest commit.
  const [newest, last] = [commits[tip() ?? 0], landings.at(-1)]
  if (newest && last) newest.report = last.report = random.below(5) === 0 ? 'error' : 'failure'
  // Or it has not on some commits that were pushed since.
  const reported = landings.length
  for (let step = random.below(6); step > 0; step--) {
    if (random.below(2) === 0) push(false, false)
    else merge(false)
  }
  for (const landing of landings.slice(reported)) {
    const { [landing.at]: commit } = commits
    if (commit) commit.report = landing.report = undefined
  }
  return { commits, landings, moves }
}

/** Writes histories into a repository, on branches `team-N`, and returns the ids of their commits. */
export function writeHistories(path: string, histories: readonly TeamHistory[]): string[][] {
  let mark = 0
  const ids = histories.map(({ commits, landings }, number) => {
    const first = mark + 1
    const lines = commits.map(({ author, parents }, index) => {
      const [from, ...others] = parents
      const who = `${author} <team@example.org> ${1_700_000_000 + ++mark} +0000`
      const message = `${number}.${index} by ${author}`
      return [
        `reset refs/import/${number}`,
        `commit refs/import/${number}`,
        `mark :${mark}`,
        `author ${who}`,
        `committer ${who}`,
        `data ${Buffer.byteLength(message)}`,
        message,
        ...(from === undefined ? [] : [`from :${first + from}`]),
        ...others.map((parent) => `merge :${first + parent}`),
        '',
        `get-mark :${mark}`,
      ].join('\n')
    })
    const tip = first + (landings.at(-1)?.at ?? 0)
    return `${lines.join('\n')}\nreset refs/heads/team-${number}\nfrom :${tip}\n`
  })
  const all = gitWith(path, ids.join('\n'), 'fast-import', '--quiet', '--force').split('\n')
  return histories.map(({ commits }) => all.splice(0, commits.length))
}
