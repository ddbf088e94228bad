import type { GitClient } from '../git/history/cached-reads.ts'
import { FairQueue } from '../util/fair-queue.ts'

/** Milliseconds for which one client works before others have their turn. */
const SLICE = 5

/**
 * Lets clients compute in turns. In each turn of the event loop one of them works, for a few
 * milliseconds, so that other requests wait for no more, however many clients ask for something
 * that takes long.
 */
export class Turns {
  readonly #queue: FairQueue

  /** @param isRemote whether there may be two: one waits for the database while the other works */
  constructor(isRemote: boolean) {
    this.#queue = new FairQueue({
      slots: isRemote ? 2 : 1,
      slotsPerClient: 1,
      waiting: 1_000,
      waitingPerClient: 250,
      timeout: 10_000,
    })
  }

  /**
   * Takes steps until one returns true. A step should take a few milliseconds at most.
   *
   * @throws QueueFull, the signal's reason, and what a step throws
   */
  async run({ address, signal }: GitClient, step: () => boolean | Promise<boolean>): Promise<void> {
    for (;;) {
      const leave = await this.#queue.enter(address, signal)
      try {
        const end = performance.now() + SLICE
        do if (await step()) return
        while (performance.now() < end)
      } finally {
        setImmediate(leave)
      }
    }
  }
}
