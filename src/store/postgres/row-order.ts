/**
 * Keeps calls that write the same row in order of arrival: one begins when those before it have
 * ended, or together with them in a batch that does them in that order.
 */
export class RowOrder<Call extends { readonly row: string | undefined }> {
  /** Never holds an empty list. */
  readonly #calls = new Map<string, Call[]>()

  add(call: Call): void {
    if (call.row === undefined) return
    const calls = this.#calls.get(call.row)
    if (calls) calls.push(call)
    else this.#calls.set(call.row, [call])
  }

  /** Returns whether all calls before this one have ended or are in the batch. */
  isNext(call: Call, batch: readonly Call[]): boolean {
    const calls = call.row === undefined ? undefined : this.#calls.get(call.row)
    if (calls === undefined || calls[0] === call) return true
    const before = calls.slice(0, calls.indexOf(call))
    return before.every((earlier) => batch.includes(earlier))
  }

  /** Removes a call that has ended. Returns whether others of its row have not. */
  remove(call: Call): boolean {
    const calls = call.row === undefined ? undefined : this.#calls.get(call.row)
    if (call.row === undefined || calls === undefined) return false
    const others = calls.filter((other) => other !== call)
    if (others.length > 0) this.#calls.set(call.row, others)
    else this.#calls.delete(call.row)
    return others.length > 0
  }
}
