import { execFileSync } from 'node:child_process'
import { runAutocannon } from './autocannon.ts'
import type { Load, Measured } from './load.ts'
import { runWrk } from './wrk.ts'

/** The cheaper the load is, the more of two processors is left for what is measured: wrk, where it is installed. */
export const loadMaker = isInstalled('wrk') ? 'wrk' : 'autocannon'

/** Puts load on a server from a process of its own. */
export function putLoad(load: Load): Promise<Measured> {
  return loadMaker === 'wrk' ? runWrk(load) : runAutocannon(load)
}

function isInstalled(command: string): boolean {
  try {
    execFileSync('which', [command], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
