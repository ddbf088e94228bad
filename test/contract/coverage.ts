import { type Contract, hasCommit } from './spec.ts'

/** Which declared answers have been seen, and how often. */
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

  /** @param operation undefined where a request names none */
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
   * Answers that the contract declares and that never came, as `operation status`. An operation that is not about a
   * commit need not read the repository's files, so nothing can make it answer 503.
   */
  missing(): string[] {
    return this.#contract.operations.flatMap((operation) =>
      [...operation.replies.keys()]
        .filter((status) => this.seen(operation.id, status) === 0 && (status !== 503 || hasCommit(operation)))
        .map((status) => `${operation.id} ${status}`),
    )
  }

  /**
   * The table operation, status, number of requests.
   *
   * @param notes what to print instead of a 0, by status
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
    return `${lines.join('\n')}\n${this.#requests} requests in all`
  }
}
