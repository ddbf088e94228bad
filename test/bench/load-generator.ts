import { isInstalled } from '../helpers/process.ts'
import { runAutocannon } from './autocannon.ts'
import type { Load, Measured } from './load.ts'
import { runWrk } from './wrk.ts'

/**
 * wrk where it is installed: a cheap load generator leaves more of two processors to the server.
 */
export const loadGenerator = isInstalled('wrk') ? 'wrk' : 'autocannon'

/** Runs a load from its own process. */
export function putLoad(load: Load): Promise<Measured> {
  return loadGenerator === 'wrk' ? runWrk(load) : runAutocannon(load)
}
