import type { Duplex } from 'node:stream'
import type { RefUpdate } from '../../store/audit.ts'
import { PacketReader, packet } from './pkt-line.ts'

/** All updates of one push. */
export interface PushedRefs {
  updates: RefUpdate[]
  /** Whether the client asked for all or nothing. */
  atomic: boolean
  /** Aborts when nobody waits for the decision any more. */
  signal: AbortSignal
}

/** Decides which refs are not updated. Returns a reason for each of them. */
export type DecideRefs = (pushed: PushedRefs) => Promise<Map<string, string>>

/** Bytes of all commands of a push. */
const MAX_INPUT = 8 * 1024 * 1024
const UPDATE = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs\/.+)$/s
/** git splits answers at spaces, so the name of one ref could be taken for another one with a reason. */
const UNSAFE = /[^\x21-\x7e\x80-\xff]/

/**
 * Serves the protocol of git's hook `proc-receive` (githooks(5)) on a channel to the hook. git calls the hook when all objects
 * of a push are stored, just before it updates refs:
 *
 * ```
 *   git                    version=1 [atomic], flush
 *   this                   version=1, flush
 *   git                    OLD NEW REF for each ref, flush
 *   this                   "ng REF REASON", or "ok REF" and "option fall-through" for each ref, flush
 * ```
 *
 * git itself updates the refs that fall through. It refuses a ref without an answer, so every failure here refuses the push.
 */
export function serveProcReceive(channel: Duplex, decide: DecideRefs): void {
  const closed = new AbortController()
  const lines: string[] = []
  let greeting: string | undefined
  let received = 0

  const reader = new PacketReader((packet) => {
    if (packet !== null) lines.push(packet.toString('latin1').replace(/\n$/, ''))
    else if (greeting === undefined) greet(lines.splice(0))
    else {
      answer(greeting, lines)
      return false
    }
    return true
  })

  function greet([first = '']: string[]): void {
    if (!/^version=1(?:\0|$)/.test(first)) throw new Error('unknown version of the protocol')
    greeting = first
    channel.write(`${packet('version=1')}0000`)
  }

  function answer(greeting: string, lines: readonly string[]): void {
    const [, features = ''] = greeting.split('\0')
    const updates = lines.map(parseUpdate).filter((update) => update !== null)
    const pushed = { updates, atomic: features.split(' ').includes('atomic'), signal: closed.signal }
    decide(pushed).then(
      (refused) => channel.end(reportOf(updates, refused)),
      (error: Error) => channel.destroy(error),
    )
  }

  channel.on('data', (chunk: Buffer) => {
    received += chunk.length
    try {
      if (received > MAX_INPUT) throw new Error('too many refs in one push')
      reader.read(chunk)
    } catch (error) {
      channel.destroy(error instanceof Error ? error : new Error(String(error)))
    }
  })
  // The hook and git may end at any time. git reports what it makes of that.
  channel.on('error', () => {})
  channel.on('close', () => closed.abort())
}

/** Returns null for a ref that git would not update anyway; it gets no answer. */
function parseUpdate(line: string): RefUpdate | null {
  const [, old = '', id = '', ref = ''] = UPDATE.exec(line) ?? []
  return ref === '' || UNSAFE.test(ref) ? null : { ref, old, new: id }
}

function reportOf(updates: readonly RefUpdate[], refused: ReadonlyMap<string, string>): Buffer {
  const packets = updates.map(({ ref }) => {
    const reason = refused.get(ref)
    if (reason === undefined) return packet(`ok ${ref}`) + packet('option fall-through')
    // The rest of the report is Latin-1, in which this is UTF-8.
    return packet(`ng ${ref} ${Buffer.from(reason).toString('latin1')}`)
  })
  return Buffer.from(`${packets.join('')}0000`, 'latin1')
}
