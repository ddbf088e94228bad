import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { RefRefusal, RefUpdate } from '../../domain/ref-updates.ts'
import { PacketReader, packet } from './pkt-line.ts'

/** All updates of one push. */
export interface PushedRefs {
  updates: RefUpdate[]
  /** Whether the client asked for all or nothing. */
  atomic: boolean
  /** Aborts when nobody waits for the decision any more. */
  signal: AbortSignal
}

/** A push about whose refs git asks. */
interface DecidedPush {
  /** Decides which refs are not updated, and why. */
  decide(pushed: PushedRefs): Promise<ReadonlyMap<string, RefRefusal>>
}

/** For `core.hooksPath`: a folder with the hook, which connects git to the channel. */
export const HOOKS = join(import.meta.dirname, 'hooks')
/** The file descriptor of the channel in git and the hook. */
export const HOOK_CHANNEL = 3

/**
 * Serves the protocol of git's hook `proc-receive` (githooks(5)) on a channel to the hook. git
 * calls the hook when all objects of a push are stored, just before it updates refs:
 *
 * ```
 *   git                    version=1 [atomic], flush
 *   this                   version=1, flush
 *   git                    OLD NEW REF for each ref, flush
 *   this                   "ng REF REASON", or "ok REF" and "option fall-through" for each ref, flush
 * ```
 *
 * git itself updates the refs that fall through. It refuses a ref without an answer, so every
 * failure here refuses the push.
 */
export function serveProcReceive(channel: Duplex, push: DecidedPush): void {
  const closed = new AbortController()
  const lines: string[] = []
  let greeting: string | undefined

  const answer = async (features: string) => {
    const updates = lines.map((line) => {
      const [old = '', id = '', ref = ''] = line.split(' ')
      return { ref, old, new: id }
    })
    const atomic = features.split(' ').includes('atomic')
    const refusals = await push.decide({ updates, atomic, signal: closed.signal })
    channel.end(reportOf(updates, refusals))
  }
  const fail = (error: unknown) => channel.destroy(error instanceof Error ? error : new Error(String(error)))
  const reader = new PacketReader((content) => {
    if (content !== null) lines.push(content.toString('latin1').replace(/\n$/, ''))
    else if (greeting === undefined) {
      greeting = lines.splice(0).join()
      channel.write(`${packet('version=1')}0000`)
    } else {
      answer(greeting.split('\0')[1] ?? '').catch(fail)
      return false
    }
    return true
  })
  channel.on('data', (chunk: Buffer) => {
    try {
      reader.read(chunk)
    } catch (error) {
      fail(error)
    }
  })
  // The hook and git may end at any time. git reports what it makes of that.
  channel.on('error', () => {})
  channel.on('close', () => closed.abort())
}

function reportOf(updates: readonly RefUpdate[], refusals: ReadonlyMap<string, RefRefusal>): Buffer {
  let packets = ''
  for (const { ref } of updates) {
    const refusal = refusals.get(ref)
    packets += refusal
      ? // The rest of the report is Latin-1, in which this is UTF-8.
        packet(`ng ${ref} ${Buffer.from(refusal.reason).toString('latin1')}`)
      : packet(`ok ${ref}`) + packet('option fall-through')
  }
  return Buffer.from(`${packets}0000`, 'latin1')
}
