import tap, { type Test } from 'tap'
import { landAsAgent } from './land/agent.ts'
import { killLandings } from './land/kills.ts'
import { landMany } from './land/many.ts'
import { landBesideForgedTickets, landBesidePushers, landSpecialMerges } from './land/others.ts'

/**
 * Lands commits from many clients at once, with random times and failures, beside people who push,
 * forged tickets and kills. Shows that each tip of the branch had passed, that everybody lands, and
 * what that costs. Times are scaled down to about a sixtieth.
 *
 * `npm run soak -- land [PART…]`
 */
const parts: Record<string, (t: Test) => Promise<void>> = {
  ...Object.fromEntries([1, 2, 3, 4, 5].map((seed) => [`seed-${seed}`, (t: Test) => landMany(t, seed)])),
  kills: (t) => killLandings(t, 6),
  'forged-tickets': landBesideForgedTickets,
  pushers: landBesidePushers,
  // Submodules, LFS pointers and conflicts.
  'merges-sha1': (t) => landSpecialMerges(t, 'sha1'),
  'merges-sha256': (t) => landSpecialMerges(t, 'sha256'),
  agent: landAsAgent,
}

const [, , , ...wanted] = process.argv
tap.setTimeout(3_600_000)
// Landings in this process listen for signals.
process.setMaxListeners(100)
for (const name of wanted.length > 0 ? wanted : Object.keys(parts))
  await tap.test(name, parts[name] ?? (() => tap.bailout(`no part ${name}`)))
