import { type Contract, hasCommit } from './spec.ts'

/** Counts the answers by operation and status. */
export class Coverage {
  readonly #contract: Contract
  readonly #seen = new Map<string, Map<number, number>>()
  #requests = 0

  constructor(contract: Contract) {
    this.#contract = contract
  }

  get requests(): number {
    return this.#requests
  }

  /** @param operation undefined for requests outside all operations */
  count(operation: string | undefined, status: number): void {
    this.#requests += 1
    if (operation === undefined) return
    const row = this.#seen.get(operation) ?? new Map<number, number>()
    row.set(status, (row.get(status) ?? 0) + 1)
    this.#seen.set(operation, row)
  }

  seen(operation: string, status: number): number {
    return this.#seen.get(operation)?.get(status) ?? 0
  }

  /**
   * Returns the declared answers that were never seen, as `operation status`. Ignores 503 of
   * operations without a commit, which do not read the repository's files.
   */
  missing(): string[] {
    return this.#contract.operations.flatMap((operation) =>
      [...operation.replies.keys()]
        .filter((status) => this.seen(operation.id, status) === 0 && (status !== 503 || hasCommit(operation)))
        .map((status) => `${operation.id} ${status}`),
    )
  }

  /**
   * Returns a table with the columns operation, status and number of requests.
   *
   * @param notes text in place of 0, by status
   */
  table(notes: ReadonlyMap<number, string> = new Map()): string {
    const rows = this.#contract.operations.flatMap(({ id, replies }) =>
      [...replies.keys()].map((status) => {
        const count = this.seen(id, status)
        return [id, String(status), count > 0 ? String(count) : (notes.get(status) ?? 'never seen')]
      }),
    )
    const cells = [['operation', 'status', 'requests'], ...rows]
    const width = Math.max(...cells.map(([first = '']) => first.length))
    const lines = cells.map(([id = '', status = '', count = '']) => {
      return `${id.padEnd(width)}  ${status.padStart(6)}  ${count.padStart(8)}`
    })
    return `${lines.join('\n')}\n${this.#requests} requests in total`
  }
}
