import { ServiceError } from '../../errors.ts'

/** Digits of the length that a packet begins with. */
const DIGITS = 4
/** Largest content of a packet in bytes. */
export const MAX_CONTENT = 65_516
const LENGTH = /^[0-9a-f]{4}$/i

/**
 * Returns text as a packet (gitprotocol-common(5), "pkt-line format"); what does not fit into one
 * is cut.
 */
export function packet(text: string): string {
  const content = text.slice(0, MAX_CONTENT)
  return (content.length + DIGITS).toString(16).padStart(DIGITS, '0') + content
}

/** Returns the bytes that a packet took. @param content null: a flush packet */
export function lengthOfPacket(content: Buffer | null): number {
  return DIGITS + (content?.length ?? 0)
}

/** Splits a stream into packets. Holds at most one: 64 KiB. */
export class PacketReader {
  readonly #take: (content: Buffer | null) => boolean
  #rest: Buffer = Buffer.alloc(0)
  #ended = false

  /**
   * @param take receives the content of a packet, null for a flush packet; returns whether others
   * follow
   */
  constructor(take: (content: Buffer | null) => boolean) {
    this.#take = take
  }

  /**
   * Reads the next bytes. Ignores those after the last packet.
   *
   * @throws ServiceError `malformed_request`; errors of `take`
   */
  read(chunk: Buffer): void {
    if (this.#ended) return
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk
    this.#ended = true
    while (rest.length >= DIGITS) {
      const digits = rest.toString('latin1', 0, DIGITS)
      const length = LENGTH.test(digits) ? Number.parseInt(digits, 16) : 1
      if (length > 0 && length < DIGITS) throw new ServiceError('malformed_request', 'A packet is malformed.')
      if (rest.length < length) break
      if (!this.#take(length === 0 ? null : rest.subarray(DIGITS, length))) return
      rest = rest.subarray(length || DIGITS)
    }
    this.#ended = false
    // Not a part of the chunk, whose memory would be held.
    this.#rest = Buffer.from(rest)
  }
}
