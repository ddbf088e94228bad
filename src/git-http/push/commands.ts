import { ServiceError } from '../../errors.ts'
import type { RefUpdate } from '../../store/audit.ts'
import { PacketReader } from './pkt-line.ts'

/** What a push begins with. */
export interface PushRequest {
  commands: RefUpdate[]
  /** Words with spaces between them, as the client sent them. */
  capabilities: string
}

/** Maximum number of bytes before the pack. */
const MAX_BYTES = 8 * 1024 * 1024
/** Maximum number of bytes of a line. A longer name would be no path of a file. */
const MAX_LINE = 4096
/** git refuses names with control characters. */
const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([\x20-\x7e\x80-\xff]*)$/i
const REPORTS = ['report-status', 'report-status-v2']
const SHALLOW = /^shallow [0-9a-f]/i

/**
 * Reads the commands of a push (gitprotocol-pack(5)) as `git receive-pack` does:
 *
 * ```
 *   "shallow ID" …
 *   "OLD NEW REF NUL CAPABILITIES", "OLD NEW REF" …
 *   flush
 * ```
 *
 * git takes capabilities from any line that has a NUL. Here only one line may have them, so that they are short. What this does not understand is refused, so git never gets a command that
 * is not returned. A signed push is refused too: git reads commands from its certificate, by rules of their own.
 *
 * A push that asks for no report is refused: a ref that another push has moved back meanwhile does not tell that it was moved.
 *
 * @param peek returns bytes of the body from an offset on; none at its end
 * @throws ServiceError `malformed_request`, `body_too_large`
 */
export async function readCommands(peek: (offset: number) => Promise<Buffer>): Promise<PushRequest> {
  const parser = new CommandParser()
  for (let offset = 0; !parser.isComplete; ) {
    if (offset > MAX_BYTES)
      throw new ServiceError('body_too_large', `The commands of the push are larger than ${MAX_BYTES} bytes.`)
    const chunk = await peek(offset)
    if (chunk.length === 0) throw malformed('it ends before its commands do')
    parser.read(chunk)
    offset += chunk.length
  }
  const request = { commands: parser.commands, capabilities: parser.capabilities ?? '' }
  if (request.commands.length > 0 && !REPORTS.some((name) => hasCapability(request, name)))
    throw malformed('it does not ask for a report')
  return request
}

/** Returns whether a client has sent a capability, with or without a value: git ignores values of those that have none. */
export function hasCapability({ capabilities }: PushRequest, name: string): boolean {
  return capabilities.split(/[ \t\r\n]/).some((word) => word === name || word.startsWith(`${name}=`))
}

class CommandParser {
  readonly commands: RefUpdate[] = []
  capabilities: string | undefined
  isComplete = false
  readonly #packets = new PacketReader((packet) => this.#take(packet))

  read(chunk: Buffer): void {
    try {
      this.#packets.read(chunk)
    } catch (error) {
      throw error instanceof ServiceError ? error : malformed('it is not a list of packets')
    }
  }

  /** Takes a packet, null at the end of the commands. Returns whether others follow. */
  #take(packet: Buffer | null): boolean {
    if (packet === null) this.isComplete = true
    else this.#takeLine(packet.toString('latin1').replace(/\n$/, ''))
    return !this.isComplete
  }

  #takeLine(text: string): void {
    if (text.length > MAX_LINE) throw malformed(`it contains a line of more than ${MAX_LINE} bytes`)
    if (SHALLOW.test(text)) return
    const [line = '', capabilities] = text.split('\0', 2)
    if (capabilities !== undefined && this.capabilities !== undefined)
      throw malformed('it contains capabilities twice')
    this.capabilities ??= capabilities
    const [, old, next, ref] = COMMAND.exec(line) ?? []
    if (old === undefined || next === undefined || ref === undefined)
      throw malformed('it contains a line that is no command')
    this.commands.push({ ref, old: old.toLowerCase(), new: next.toLowerCase() })
  }
}

function malformed(reason: string): ServiceError {
  return new ServiceError('malformed_request', `The push is malformed: ${reason}.`)
}
