import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** Returns the bytes of memory in use, without what nothing refers to any more. */
export async function usedMemory(): Promise<number> {
  // What was awaited last is still referred to.
  await setImmediate()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
