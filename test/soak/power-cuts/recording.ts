import assert from 'node:assert/strict'
import type { Random } from '../../helpers/random.ts'
import type { Cut, Disk } from './disk.ts'
import type { Traced } from './trace.ts'
import type { Promised, Recorded, Step } from './workload.ts'

/** A step, and the index of the action with which it was answered. */
interface Answered extends Step {
  answeredAt: number
}

/** What was recorded, and the moments in it at which power cuts are of interest. */
export class Recording {
  readonly disk: Disk
  readonly steps: Answered[]
  readonly #actions: readonly Traced[]
  /** Indices at which something is written. */
  readonly #writes: number[] = []
  /** By index, whether a request or command that changes files is in progress. */
  readonly #busy: boolean[] = []

  /**
   * Makes sure that the recording is complete: replayed to its end, it gives the files that are
   * there.
   */
  constructor({ actions, steps, disk }: Recorded) {
    this.#actions = actions
    this.disk = disk
    for (const [index, action] of actions.entries()) {
      disk.record(action, index)
      if ('path' in action && disk.contains(action.path)) this.#writes.push(index)
    }
    // SQLite writes the index of its log into mapped memory, and makes it anew after a crash.
    assert.deepEqual(
      disk.differences((path) => path.endsWith('.db-shm')),
      [],
    )
    this.steps = steps.map((step) => {
      const answeredAt = actions.findIndex(
        (action) => action.run === step.run && action.start >= step.start && step.answers(action),
      )
      assert(answeredAt >= 0, `${step.name} was not answered`)
      return { ...step, answeredAt }
    })
    for (const { start, answeredAt, promises } of this.steps) {
      if (promises.some(({ kind }) => kind === 'report')) continue
      const from = actions.findIndex((action) => action.start >= start)
      for (let index = from; index <= answeredAt; index++) this.#busy[index] = true
    }
  }

  get length(): number {
    return this.#actions.length
  }

  /** What was acknowledged by then and must be true. */
  promisedAt(at: number): Promised[] {
    const time = this.#actions[at - 1]?.start ?? 0
    return this.steps
      .filter(({ answeredAt }) => answeredAt < at)
      .toSorted((one, other) => one.answeredAt - other.answeredAt)
      .flatMap(({ promises }) => promises)
      .filter((promise) => promise.kind !== 'ref' || time < (promise.until ?? Number.POSITIVE_INFINITY))
  }

  anywhere(random: Random): number {
    return (this.#writes[random.below(this.#writes.length)] ?? 0) + 1
  }

  /**
   * A moment after an answer, and those to requests beside it, and before the next request that
   * changes files; often the first such moment.
   */
  afterAnswer(random: Random): number {
    const { answeredAt } = random.pick(this.steps) ?? { answeredAt: 0 }
    let first = answeredAt + 1
    while (this.#busy[first]) first++
    let end = first
    while (end < this.length && !this.#busy[end]) end++
    return random.onceIn(2) ? first : first + random.below(end - first + 1)
  }

  describe({ at, names }: Cut): string {
    const action = this.#actions[at - 1]
    const last = this.steps.filter(({ answeredAt }) => answeredAt < at).at(-1)
    const what = action && 'path' in action ? `${action.kind} ${action.path}` : action?.kind
    return `after action ${at}: ${what} by ${action?.program}; last answer: ${last?.name}; names ${names}`
  }
}
