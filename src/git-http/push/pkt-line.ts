/** Digits of the length that a packet begins with. */
export const LENGTH_DIGITS = 4
/** Largest content of a packet in bytes. */
export const MAX_CONTENT = 65_516
const LENGTH = /^[0-9a-f]{4}$/i

/** Returns text as a packet (gitprotocol-common(5), "pkt-line format"); what does not fit into one is cut. */
export function packet(text: string): string {
  const content = text.slice(0, MAX_CONTENT)
  return (content.length + LENGTH_DIGITS).toString(16).padStart(LENGTH_DIGITS, '0') + content
}

/** Splits a stream into packets. Holds at most one: 64 KiB. */
export class PacketReader {
  readonly #take: (packet: Buffer | null) => boolean
  #rest: Buffer = Buffer.alloc(0)
  #ended = false

  /** @param take receives the content of a packet, null for a flush packet; returns whether others follow */
  constructor(take: (packet: Buffer | null) => boolean) {
    this.#take = take
  }

  /** Reads the next bytes. Ignores those after the last packet. @throws Error for a malformed packet, and errors of `take` */
  read(chunk: Buffer): void {
    if (this.#ended) return
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk
    this.#ended = true
    this.#rest = Buffer.alloc(0)
    for (;;) {
      const length = lengthAt(rest)
      if (Number.isNaN(length)) throw new Error('malformed packet')
      if (length === null || rest.length < length) break
      const isFlush = length === 0
      if (!this.#take(isFlush ? null : rest.subarray(LENGTH_DIGITS, length))) return
      rest = rest.subarray(isFlush ? LENGTH_DIGITS : length)
    }
    this.#ended = false
    // Not a part of the chunk, whose memory would be held.
    this.#rest = Buffer.from(rest)
  }
}

/**
 * Returns the length of the packet at `offset` with its digits: 0 for a flush packet, NaN for a malformed one, null if the
 * digits are incomplete.
 */
export function lengthAt(bytes: Buffer, offset = 0): number | null {
  const digits = bytes.toString('latin1', offset, offset + LENGTH_DIGITS)
  if (digits.length < LENGTH_DIGITS) return null
  const length = LENGTH.test(digits) ? Number.parseInt(digits, 16) : Number.NaN
  return length === 0 || length >= LENGTH_DIGITS ? length : Number.NaN
}
