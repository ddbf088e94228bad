/**
 * Sends requests from some workers, each one after the other, until it is stopped.
 *
 * @param send sends the request of a worker with this number and returns the answer's status;
 * rejects without an answer
 */
export function startLoad(workers: number, send: (worker: number, index: number) => Promise<number>) {
  /** Counts by status, and of lost connections. */
  const answers: Record<string, number> = {}
  let stopped = false
  const running = Array.from({ length: workers }, async (_, worker) => {
    for (let index = 0; !stopped; index++) {
      const status = await send(worker, index).catch(() => 'connection lost')
      answers[status] = (answers[status] ?? 0) + 1
    }
  })
  return {
    answers,
    async stop() {
      stopped = true
      await Promise.all(running)
    },
  }
}
