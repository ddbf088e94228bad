import { randomUUID } from 'node:crypto'
import { ServiceError } from '../../src/errors.ts'
import type { CommitKey } from '../../src/store/statuses/statuses.ts'
import type { Store } from '../../src/store/store.ts'
import { afterReport, type RunReport } from '../contract/run-model.ts'
import { asAdministrator } from './changes.ts'

/** One report that can arrive: several times, at any place of a sequence, or not at all. */
export interface Arrival {
  /** undefined: the report names no run. */
  run?: string
  state: 'pending' | 'success' | 'failure'
  /** Milliseconds between the beginnings of the first run and of its own. */
  began: number
  /**
   * Milliseconds by which its delivery took longer: so much later its run seems to have begun.
   */
  delay?: number
}

/** What became of all reports of all sequences. */
export interface SequenceCounts {
  sequences: number
  reports: number
  stored: number
  run_superseded: number
  report_late: number
  /** Sequences that end with a success, although the last run that was reported has failed. */
  wronglyGreen: number
}

/** Sequences that are reported at the same time, each to its own context of one commit. */
const AT_ONCE = 500
/** Milliseconds since the first run began. */
const BEGAN_AGO = 3_600_000

/**
 * Reports every sequence of `length` arrivals, and compares each answer, and the rows after it,
 * with the model. So all shorter sequences are compared too.
 *
 * @param stores of one database: each report is sent to one and read from another
 * @throws Error naming the first sequence that differs
 */
export async function reportSequences(
  stores: readonly Store[],
  arrivals: readonly Arrival[],
  length: number,
): Promise<SequenceCounts> {
  const storeOf = (turn: number) => elementOf(stores, turn % stores.length)
  const name = `runs-${randomUUID()}`
  const repository = { owner: 'acme', name, visibility: 'public', objectFormat: 'sha1' } as const
  const { id: repositoryId } = await asAdministrator(storeOf(0)).repositories.create(repository)
  const firstBegan = Date.now() - BEGAN_AGO
  const sequences = arrivals.length ** length
  const counts = { sequences, reports: 0, stored: 0, run_superseded: 0, report_late: 0, wronglyGreen: 0 }

  /** Reports one arrival of a sequence. Returns what is stored then, by the model. */
  async function report(sequence: Sequence, step: number, commit: CommitKey): Promise<RunReport> {
    const { run, state, began, delay = 0 } = elementOf(sequence.arrivals, step)
    const seemsBegun = firstBegan + began + delay
    const ofRun = run === undefined ? {} : { run, elapsed: Date.now() - seemsBegun }
    const answer = await storeOf(sequence.number + step)
      .statuses.report({ ...commit, context: `${sequence.number}`, state, ...ofRun })
      .then((row) => row?.state, codeOf)
    const stored = afterReport(sequence.stored, { run, state, began: seemsBegun })
    const refusal = sequence.stored?.run === run ? 'report_late' : 'run_superseded'
    const isStored = stored !== sequence.stored
    const expected = isStored ? state : refusal
    if (answer !== expected) throw new Error(`${describe(sequence, step)}: ${answer}, not ${expected}`)
    counts.reports += 1
    counts[isStored ? 'stored' : refusal] += 1
    return stored
  }

  for (let start = 0; start < sequences; start += AT_ONCE) {
    const commit = { repositoryId, sha: start.toString(16).padStart(40, '0') }
    const group = Array.from({ length: Math.min(AT_ONCE, sequences - start) }, (_, index): Sequence => {
      const number = start + index
      return { number, arrivals: digits(number, arrivals, length), stored: undefined }
    })
    for (let step = 0; step < length; step++) {
      const stored = await Promise.all(group.map((sequence) => report(sequence, step, commit)))
      const rows = await storeOf(start + step + 1).statuses.list(repositoryId, commit.sha)
      const states = new Map(rows.map(({ context, state }) => [context, state]))
      for (const [index, sequence] of group.entries()) {
        sequence.stored = elementOf(stored, index)
        const state = states.get(`${sequence.number}`)
        if (state !== sequence.stored.state)
          throw new Error(`${describe(sequence, step)} leaves ${state}, not ${sequence.stored.state}`)
      }
    }
    counts.wronglyGreen += group.filter(isWronglyGreen).length
  }
  return counts
}

interface Sequence {
  number: number
  arrivals: readonly Arrival[]
  stored: RunReport | undefined
}

/**
 * Returns whether the run that began last has failed, and a success is stored. A report without a
 * run always replaces what is stored.
 */
function isWronglyGreen({ arrivals, stored }: Sequence): boolean {
  if (arrivals.some(({ run }) => run === undefined)) return false
  const last = Math.max(...arrivals.map(({ began }) => began))
  const hasFailed = arrivals.some(({ began, state }) => began === last && state === 'failure')
  return hasFailed && stored?.state === 'success'
}

/** Returns the elements that the digits of a number name. */
function digits<Element>(number: number, elements: readonly Element[], length: number): Element[] {
  return Array.from({ length }, (_, place) =>
    elementOf(elements, Math.floor(number / elements.length ** place) % elements.length),
  )
}

function elementOf<Element>(elements: readonly Element[], index: number): Element {
  const element = elements[index]
  if (element === undefined) throw new Error(`there is no element ${index}`)
  return element
}

function describe({ arrivals }: Sequence, step: number): string {
  return JSON.stringify(arrivals.slice(0, step + 1))
}

function codeOf(error: unknown): string {
  if (error instanceof ServiceError) return error.code
  throw error
}
