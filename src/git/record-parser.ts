import type { GitOutput } from './run-git.ts'

/** Limits of one list. */
export interface ListLimits {
  /** Number of commits or refs. */
  count: number
  /** Milliseconds that one git process may take. */
  timeout: number
}

/** Limits of the output of git that is kept. */
export interface RecordLimits {
  /** Fields of a record. */
  fields: number
  /** Bytes of a field. The rest is dropped. */
  fieldLength: number
  /** Bytes of the whole output. Records after that are left out. */
  outputLength: number
}

/**
 * Splits git's output into records of a number of fields. Every field ends with NUL, which no field
 * can contain.
 *
 * Messages of any length can be pushed. git has no option to print a prefix of bounded size, so it
 * prints the whole message and only the beginning of each field is kept.
 */
export class RecordParser implements GitOutput {
  readonly records: string[][] = []
  readonly #limits: RecordLimits
  readonly #field: Buffer
  /** Number of bytes kept of the current field. */
  #length = 0
  #fields: string[] = []
  #received = 0

  constructor(limits: RecordLimits) {
    this.#limits = limits
    this.#field = Buffer.alloc(limits.fieldLength)
  }

  /** Whether the maximum number of bytes was read. */
  get isFull(): boolean {
    return this.#received >= this.#limits.outputLength
  }

  push(chunk: Buffer): void {
    if (this.isFull) return
    this.#received += chunk.length
    let from = 0
    for (let to = chunk.indexOf(0); to !== -1; to = chunk.indexOf(0, from)) {
      this.#append(chunk, from, to)
      this.#endField()
      from = to + 1
    }
    this.#append(chunk, from, chunk.length)
    // The beginning of the last field was read.
    if (this.isFull && this.#fields.length === this.#limits.fields - 1) this.#endField()
  }

  #append(chunk: Buffer, from: number, to: number): void {
    this.#length += chunk.copy(this.#field, this.#length, from, to)
  }

  #endField(): void {
    this.#fields.push(this.#field.toString('utf8', 0, this.#length))
    this.#length = 0
    if (this.#fields.length < this.#limits.fields) return
    this.records.push(this.#fields)
    this.#fields = []
  }
}

/** Returns an ISO 8601 date in UTC, or null if git printed none. */
export function readDate(text: string): string | null {
  const moment = Date.parse(text)
  return Number.isNaN(moment) ? null : new Date(moment).toISOString()
}
