import type { ServerResponse } from 'node:http'
import { shareOfMemory } from '../util/memory.ts'

/** Bytes of the smallest answer that counts while it is being sent, and of all that may wait. */
const LARGE = 64 * 1024
const UNSENT = shareOfMemory(128)

/**
 * Returns a function to call with each answer before it is sent. When clients read so slowly that
 * more than `limit` bytes of large answers wait, the client with the most of them loses its oldest
 * one: its connection is destroyed. So nobody can keep others from large answers by not reading.
 */
export function createUnsentLimit(limit = UNSENT) {
  /** The large answers that are being sent, the oldest first. */
  const answers = new Map<ServerResponse, { address: string; bytes: number }>()
  let total = 0

  function remove(answer: ServerResponse): void {
    total -= answers.get(answer)?.bytes ?? 0
    answers.delete(answer)
  }

  function cutOldest(): void {
    const bytesOf = new Map<string, number>()
    for (const { address, bytes } of answers.values())
      bytesOf.set(address, (bytesOf.get(address) ?? 0) + bytes)
    const [most] = [...bytesOf].reduce((most, other) => (other[1] > most[1] ? other : most))
    for (const [oldest, { address }] of answers) {
      if (address !== most) continue
      remove(oldest)
      oldest.destroy()
      return
    }
  }

  return (request: { client: { address: string } }, answer: ServerResponse, payload: unknown): void => {
    if (!Buffer.isBuffer(payload) || payload.length < LARGE || answer.destroyed) return
    answers.set(answer, { address: request.client.address, bytes: payload.length })
    total += payload.length
    answer.once('close', () => remove(answer))
    while (total > limit) cutOldest()
  }
}
