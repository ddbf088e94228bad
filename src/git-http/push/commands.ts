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
// git updates no other refs, and splits lines about them at spaces.
const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs\/[\x21-\x7e\x80-\xff]+)$/i
const SHALLOW = /^shallow [0-9a-f]/
const CERTIFICATE = 'push-cert'

/**
 * Reads the commands of a push (gitprotocol-pack(5)): "shallow ID" …, "OLD NEW REF NUL CAPABILITIES", "OLD NEW REF" …, flush.
 * What git might read differently is refused, so git never gets a command that is not returned. git takes capabilities from
 * every line that has a NUL. A certificate with commands would be of no use: nothing depends on signatures.
 *
 * @param peek returns bytes of the body from an offset on; none at its end
 * @throws ServiceError `malformed_request`, `body_too_large`
 */
export async function readCommands(peek: (offset: number) => Promise<Buffer>): Promise<PushRequest> {
  const commands: RefUpdate[] = []
  let capabilities = ''
  let isComplete = false
  const packets = new PacketReader((content) => {
    const line = content?.toString('latin1').replace(/\n$/, '')
    isComplete = line === undefined
    if (line === undefined || SHALLOW.test(line)) return !isComplete
    const [command = '', words = ''] = line.split('\0', 2)
    capabilities += ` ${words}`
    commands.push(parseCommand(command))
    return true
  })
  for (let offset = 0; !isComplete; ) {
    if (offset > MAX_BYTES)
      throw new ServiceError('body_too_large', `The commands of the push are larger than ${MAX_BYTES} bytes.`)
    const chunk = await peek(offset)
    if (chunk.length === 0) throw malformed('it ends before its commands do')
    packets.read(chunk)
    offset += chunk.length
  }
  return { commands, capabilities }
}

/** Returns whether a client has sent a capability, with or without a value: git ignores values of those that have none. */
export function hasCapability({ capabilities }: PushRequest, name: string): boolean {
  return capabilities.split(/[ \t\r\n]/).some((word) => word === name || word.startsWith(`${name}=`))
}

function parseCommand(line: string): RefUpdate {
  if (line === CERTIFICATE) throw malformed('signed pushes are not supported; push with --no-signed')
  const [, old, next, ref] = COMMAND.exec(line) ?? []
  if (old === undefined || next === undefined || ref === undefined)
    throw malformed('it contains a line that is no command')
  return { ref, old: old.toLowerCase(), new: next.toLowerCase() }
}

function malformed(reason: string): ServiceError {
  return new ServiceError('malformed_request', `The push is malformed: ${reason}.`)
}
