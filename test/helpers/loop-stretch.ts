import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Instance } from './instance.ts'

/** Options for an instance whose event loop is to be measured. */
export const measured = [`--import=${resolve(import.meta.dirname, 'fixtures/loop-stretch-hook.ts')}`]

/**
 * The longest time for which a measured instance kept its event loop from turning, since this was last asked for. It is
 * processor time in milliseconds: unlike the clock, it does not tell of what else the machine does.
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
