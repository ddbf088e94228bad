import type { ServerResponse } from 'node:http'

/** Bytes of the smallest answer that counts while it is being sent, and of all that may wait. */
const LARGE = 64 * 1024
const UNSENT = 128 * 1024 * 1024

/** The large answers that are being sent to one client, the oldest first. */
interface Client {
  bytes: number
  answers: Map<ServerResponse, number>
}

/**
 * Returns a function to call with each answer before it is sent. When clients read so slowly that
 * more than `limit` bytes of large answers wait, the client with the most of them loses its oldest
 * one: its connection is destroyed. So nobody can keep others from large answers by not reading.
 */
export function createUnsentLimit(limit = UNSENT) {
  const clients = new Map<string, Client>()
  let total = 0

  function remove(address: string, answer: ServerResponse): void {
    const client = clients.get(address)
    const length = client?.answers.get(answer)
    if (client === undefined || length === undefined) return
    total -= length
    client.bytes -= length
    client.answers.delete(answer)
    if (client.answers.size === 0) clients.delete(address)
  }

  function cutOldest(): void {
    const [address, { answers }] = [...clients].reduce((most, other) =>
      other[1].bytes > most[1].bytes ? other : most,
    )
    for (const [oldest] of answers) {
      remove(address, oldest)
      oldest.destroy()
      return
    }
  }

  return (request: { client: { address: string } }, answer: ServerResponse, payload: unknown): void => {
    if (!Buffer.isBuffer(payload) || payload.length < LARGE || answer.destroyed) return
    const { address } = request.client
    const client = clients.get(address) ?? { bytes: 0, answers: new Map() }
    clients.set(address, client)
    client.answers.set(answer, payload.length)
    client.bytes += payload.length
    total += payload.length
    answer.once('close', () => remove(address, answer))
    while (total > limit) cutOldest()
  }
}
