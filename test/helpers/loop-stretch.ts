import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Instance } from './instance.ts'

/** Node options of an instance whose event loop is measured. */
export const measured = [`--import=${resolve(import.meta.dirname, 'fixtures/loop-stretch-hook.ts')}`]

/**
 * Returns the longest time that a measured instance blocked its event loop since the last call, in
 * milliseconds of processor time, which does not depend on the load of the machine.
 */
export async function longestStretch({ child, log }: Instance): Promise<number> {
  const before = log.length
  child.kill('SIGUSR2')
  for (;;) {
    const [, stretch] = log.slice(before).flatMap((line) => /^longest stretch (\S+)$/.exec(line) ?? [])
    if (stretch !== undefined) return Number(stretch)
    await setTimeout(5)
  }
}
