import type { RefUpdate } from '../../store/audit.ts'
import { hasCapability, type PushRequest } from './commands.ts'
import { MAX_CONTENT, PacketReader, packet } from './pkt-line.ts'

/** Channels of an answer with the capability `side-band-64k`. Without it, no content begins with such a byte. */
const REPORT = 1
const ERROR = 3

/**
 * Reads git's report of a push (gitprotocol-pack(5)) from its answer:
 *
 * ```
 *   "unpack ok", "ok REF" or "ng REF REASON" for each command, in their order, flush
 * ```
 *
 * It is git's own statement of what it updated, so no other push can be mistaken for this one.
 */
export class PushReport {
  readonly #commands: readonly RefUpdate[]
  readonly #updated: RefUpdate[] = []
  readonly #report = new PacketReader((packet) => this.#takeLine(packet))
  readonly #answer = new PacketReader((packet) => this.#takePacket(packet))
  #reported = 0

  constructor(commands: readonly RefUpdate[]) {
    this.#commands = commands
  }

  /** Takes the next bytes of the body of git's answer. */
  read(chunk: Buffer): void {
    try {
      this.#answer.read(chunk)
    } catch {
      // Malformed: the reader ignores what follows.
    }
  }

  /** The updates that git made; null unless it has reported all commands. */
  get updated(): RefUpdate[] | null {
    return this.#reported === this.#commands.length ? this.#updated : null
  }

  #takePacket(packet: Buffer | null): boolean {
    const channel = packet?.[0] ?? 0
    if (channel === REPORT) this.#report.read(packet?.subarray(1) ?? Buffer.alloc(0))
    else if (channel === 0 || channel > ERROR) this.#takeLine(packet)
    return packet !== null
  }

  #takeLine(packet: Buffer | null): boolean {
    const line = packet?.toString('latin1').replace(/\n$/, '') ?? ''
    const command = this.#commands[this.#reported]
    if (command !== undefined && line === `ok ${command.ref}`) {
      this.#reported++
      this.#updated.push(command)
    } else if (command !== undefined && line.startsWith(`ng ${command.ref} `)) this.#reported++
    return packet !== null
  }
}

/** Returns the answer that git would give if it refused all commands. */
export function reportRefusal(request: PushRequest, reason: string): Buffer {
  // The rest of the report is Latin-1, in which this is UTF-8.
  const text = Buffer.from(reason).toString('latin1')
  const lines = ['unpack ok\n', ...request.commands.map(({ ref }) => `ng ${ref} ${text}\n`)]
  const report = `${lines.map(packet).join('')}0000`
  if (!hasCapability(request, 'side-band-64k')) return Buffer.from(report, 'latin1')
  const packets: string[] = []
  for (let start = 0; start < report.length; start += MAX_CONTENT - 1)
    packets.push(packet(String.fromCharCode(REPORT) + report.slice(start, start + MAX_CONTENT - 1)))
  return Buffer.from(`${packets.join('')}0000`, 'latin1')
}
