import type { FileHandle } from 'node:fs/promises'
import type { RefUpdate } from '../../domain/ref-updates.ts'
import { ServiceError } from '../../errors.ts'
import { lengthOfPacket, PacketReader } from './pkt-line.ts'

/** What a push begins with. */
export interface PushRequest {
  commands: RefUpdate[]
  /** Whether the client takes packets before git's report. */
  sideband: boolean
}

/** What a client has sent capabilities for. */
interface Capabilities {
  report: boolean
  options: boolean
  sideband: boolean
}

/** Maximum number of bytes before the pack. */
const MAX_BYTES = 8 * 1024 * 1024
/** Bytes that are read at once. */
const CHUNK = 64 * 1024
/** Maximum number of bytes of a line. A longer name could not be the path of a file. */
const MAX_LINE = 4096
/**
 * git updates no other refs. No ref has one of these characters (git-check-ref-format(1)): git
 * would split lines at spaces, and match a name with `*`, `?`, `[` or `\` as a pattern with all
 * refs, which can take years.
 */
const COMMAND =
  /^([0-9a-fA-F]{40}|[0-9a-fA-F]{64}) ([0-9a-fA-F]{40}|[0-9a-fA-F]{64}) (refs\/[!-)+-9;->@-Z\]_-}\x80-\xff]+)$/
const SHALLOW = /^shallow [0-9a-f]/i
const CERTIFICATE = 'push-cert'

/**
 * Reads the commands of a push (gitprotocol-pack(5)): "shallow ID" …, "OLD NEW REF NUL
 * CAPABILITIES", "OLD NEW REF" …, flush. What git might read differently is refused, so git never
 * gets a command that is not returned. git would take capabilities from every line that has a NUL,
 * and commands from certificates, by rules of their own.
 *
 * A push that asks for no report is refused: without one, a ref that another push has moved back
 * meanwhile looks untouched.
 */
export class CommandReader {
  readonly #commands: RefUpdate[] = []
  readonly #packets = new PacketReader((content) => this.#take(content))
  #capabilities: Capabilities | undefined
  /** git keeps the options of a push in memory, so they are read along. */
  #part: 'commands' | 'options' | 'rest' = 'commands'
  /** Bytes that were read, and those of the packets among them. */
  #read = 0
  #taken = 0

  /**
   * Reads the next bytes. Ignores those after the commands.
   *
   * @throws ServiceError `malformed_request`, `body_too_large`
   */
  read(chunk: Buffer): void {
    this.#read += chunk.length
    this.#packets.read(chunk)
    if (this.#part !== 'rest' && this.#read > MAX_BYTES)
      throw new ServiceError(
        'body_too_large',
        `The commands and options of the push are larger than ${MAX_BYTES} bytes.`,
      )
  }

  /** What was read; null before all of it has been. */
  get request(): PushRequest | null {
    if (this.#part !== 'rest') return null
    return { commands: this.#commands, sideband: this.#capabilities?.sideband ?? false }
  }

  /** Whether something came after that. */
  get hasMore(): boolean {
    return this.#part === 'rest' && this.#read > this.#taken
  }

  #take(content: Buffer | null): boolean {
    this.#taken += lengthOfPacket(content)
    if (content === null) return this.#endPart()
    if (this.#part === 'options') return true
    const text = content.toString('latin1').replace(/\n$/, '')
    if (text.length > MAX_LINE) throw malformed(`it contains a line of more than ${MAX_LINE} bytes`)
    if (SHALLOW.test(text)) return true
    const [command = '', words] = text.split('\0', 2)
    if (words !== undefined && this.#capabilities) throw malformed('it contains capabilities twice')
    if (words !== undefined) this.#capabilities = readCapabilities(words)
    this.#commands.push(parseCommand(command))
    return true
  }

  /** Returns whether others follow. */
  #endPart(): boolean {
    if (this.#commands.length > 0 && !this.#capabilities?.report)
      throw malformed('it does not ask for a report')
    this.#part = this.#part === 'commands' && this.#capabilities?.options ? 'options' : 'rest'
    return this.#part === 'options'
  }
}

/** Reads the commands of a whole push. @throws as `CommandReader`; the system's error */
export async function readCommands(body: FileHandle): Promise<PushRequest> {
  const reader = new CommandReader()
  for (let offset = 0; ; ) {
    const { buffer, bytesRead } = await body.read(Buffer.alloc(CHUNK), 0, CHUNK, offset)
    if (bytesRead === 0) throw malformed('it ends before its commands do')
    reader.read(buffer.subarray(0, bytesRead))
    if (reader.request) return reader.request
    offset += bytesRead
  }
}

/**
 * Reads capabilities, words with spaces between them, with or without values: git ignores values of
 * those that have none.
 */
function readCapabilities(words: string): Capabilities {
  const names = new Set(words.split(/[ \t\r\n]/).map((word) => word.split('=', 1)[0]))
  return {
    report: names.has('report-status') || names.has('report-status-v2'),
    options: names.has('push-options'),
    sideband: names.has('side-band-64k'),
  }
}

/** Returns the refs that commands name. */
export function refsOf(commands: readonly RefUpdate[]): string[] {
  return commands.map(({ ref }) => ref)
}

function parseCommand(line: string): RefUpdate {
  if (line === CERTIFICATE) throw malformed('signed pushes are not supported; push with --no-signed')
  const [, old, next, ref] = COMMAND.exec(line) ?? []
  if (old === undefined || next === undefined || ref === undefined)
    throw malformed('it contains a line that is no command, or a name that no ref can have')
  return { ref, old: old.toLowerCase(), new: next.toLowerCase() }
}

function malformed(reason: string): ServiceError {
  return new ServiceError('malformed_request', `The push is malformed: ${reason}.`)
}
