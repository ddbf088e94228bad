import type { Client } from '../../index.ts'

/** Sends requests for all repositories of a worker. */
export interface Service {
  call<Answer extends { status: number }>(send: (client: Client) => Promise<Answer>): Promise<Answer>
}

/**
 * After a 401, a client sends nothing more, since failures are counted for its address. A new one asks
 * again after the pause, in milliseconds: once for all repositories.
 */
export function createService(open: () => Client, pause: number): Service {
  let client = open()
  let refusedAt: number | undefined
  return {
    async call(send) {
      if (refusedAt !== undefined && performance.now() - refusedAt >= pause) {
        client = open()
        refusedAt = undefined
      }
      const answer = await send(client)
      if (answer.status === 401) refusedAt ??= performance.now()
      return answer
    },
  }
}
