import { PacketReader } from './pkt-line.ts'
import type { RefUpdate } from './proc-receive.ts'

/** The refs that git updated for a push. */
export interface PushResult {
  /** The first ones. Unlike in the protocol, names that are UTF-8 are decoded as such. */
  updates: RefUpdate[]
  /** Number of further ones. */
  more: number
  /** Whether git ended without a report: then `updates` are those that the client asked for. */
  unreported: boolean
}

/** Maximum number of updates in a result. */
const MAX_UPDATES = 50
/** Maximum number of commands of a push that are compared with the report. */
const MAX_COMMANDS = 10_000
const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^\0\n]+)/i

/**
 * Observes a push (gitprotocol-pack(5)): the commands at the start of the request, and the report in git's answer.
 *
 * ```
 *   request    "OLD NEW REF NUL CAPABILITIES", "OLD NEW REF" …, flush, pack
 *   answer     "unpack ok", "ok REF" or "ng REF REASON" …, flush; with side-band-64k as content of packets of channel 1
 * ```
 *
 * The report is git's own statement of what it updated, so no other push can be mistaken for this one. A client can ask for
 * no report; then the result is marked as `unreported`.
 */
export class PushObserver {
  readonly #commands = new Map<string, RefUpdate>()
  readonly #updated: RefUpdate[] = []
  readonly #request = new PacketReader((packet) => this.#takeCommand(packet))
  readonly #report = new PacketReader((packet) => this.#takeReport(packet))
  readonly #answer = new PacketReader((packet) => this.#takeAnswer(packet))
  #asked = 0
  #accepted = 0
  #capabilities = new Set<string>()
  #reported = false

  /** Takes the next bytes of the request, decompressed. */
  request(chunk: Buffer): void {
    readPackets(this.#request, chunk)
  }

  /** Takes the next bytes of the body of git's answer. */
  answer(chunk: Buffer): void {
    readPackets(this.#capabilities.has('side-band-64k') ? this.#answer : this.#report, chunk)
  }

  /** Returns what git updated. Call it when git has ended. */
  result(): PushResult {
    const known = this.#reported ? this.#updated : [...this.#commands.values()].slice(0, MAX_UPDATES)
    const total = this.#reported ? this.#accepted : this.#asked
    const updates = known.map((update) => ({ ...update, ref: Buffer.from(update.ref, 'latin1').toString() }))
    return { updates, more: total - updates.length, unreported: !this.#reported }
  }

  #takeCommand(packet: Buffer | null): boolean {
    // A flush packet ends the commands, but not the list of commits of a shallow clone, which has no end of its own.
    if (packet === null) return false
    const line = packet.toString('latin1')
    if (this.#capabilities.size === 0 && line.includes('\0'))
      this.#capabilities = new Set(
        line
          .slice(line.indexOf('\0') + 1)
          .trim()
          .split(' '),
      )
    const [, old = '', next = '', ref] = COMMAND.exec(line) ?? []
    if (ref === undefined) return true
    this.#asked++
    const update = { ref, old: old.toLowerCase(), new: next.toLowerCase() }
    if (this.#commands.size < MAX_COMMANDS) this.#commands.set(ref, update)
    return true
  }

  #takeAnswer(packet: Buffer | null): boolean {
    if (packet?.[0] === 1) this.#report.read(packet.subarray(1))
    return packet !== null
  }

  #takeReport(packet: Buffer | null): boolean {
    if (packet === null) return false
    const line = packet.toString('latin1').replace(/\n$/, '')
    if (line.startsWith('unpack ')) this.#reported = true
    if (!line.startsWith('ok ')) return true
    this.#accepted++
    const update = this.#commands.get(line.slice('ok '.length))
    if (update && this.#updated.length < MAX_UPDATES) this.#updated.push(update)
    return true
  }
}

/** Reads packets up to a malformed one, at which git ends too. */
function readPackets(reader: PacketReader, chunk: Buffer): void {
  try {
    reader.read(chunk)
  } catch {
    // The reader ignores what follows.
  }
}
