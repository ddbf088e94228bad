/** A call, linked with those before and after it that write the same row and have not ended. */
export interface OrderedCall<Call> {
  /** The row; undefined: the call may run in any order. */
  readonly row: string | undefined
  before?: Call | undefined
  after?: Call | undefined
}

/**
 * Keeps calls that write the same row in order of arrival: one begins when those before it have
 * ended, or together with them in a batch that does them in that order. Each step costs the same,
 * however many calls of a row are waiting.
 */
export class RowOrder<Call extends OrderedCall<Call>> {
  /** The last call of each row. */
  readonly #last = new Map<string, Call>()

  add(call: Call): void {
    if (call.row === undefined) return
    const before = this.#last.get(call.row)
    if (before) {
      call.before = before
      before.after = call
    }
    this.#last.set(call.row, call)
  }

  /**
   * Returns whether all calls before this one have ended or are in the batch, whose calls were asked
   * about in order of arrival.
   */
  isNext({ before }: Call, batch: readonly Call[]): boolean {
    return before === undefined || batch.includes(before)
  }

  /** Removes a call that has ended. Returns whether others of its row have not. */
  remove(call: Call): boolean {
    const { row, before, after } = call
    if (row === undefined) return false
    if (before) before.after = after
    if (after) after.before = before
    else if (before) this.#last.set(row, before)
    else if (this.#last.get(row) === call) this.#last.delete(row)
    call.before = undefined
    call.after = undefined
    return before !== undefined || after !== undefined
  }
}
