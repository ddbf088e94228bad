import tap from 'tap'
import { landAsAgent } from './land/agent.ts'
import { killLandings } from './land/kills.ts'
import { landMany } from './land/many.ts'
import { landBesideForgedTickets, landBesidePushers, landSpecialMerges } from './land/others.ts'

/**
 * Lands commits from many clients at once, with random times and failures, beside people who push,
 * forged tickets and kills. Shows that each tip of the branch had passed, that everybody lands, and
 * what that costs. Times are scaled down to about a sixtieth.
 */
tap.setTimeout(3_600_000)
// Landings in this process listen for signals.
process.setMaxListeners(100)

for (const seed of [1, 2, 3, 4, 5]) await tap.test(`ten landers, seed ${seed}`, (t) => landMany(t, seed))
await tap.test('200 kills', (t) => killLandings(t, 6))
await tap.test('forged tickets', landBesideForgedTickets)
await tap.test('people who push', landBesidePushers)
for (const format of ['sha1', 'sha256'] as const)
  await tap.test(`submodules, LFS pointers and conflicts, ${format}`, (t) => landSpecialMerges(t, format))
await tap.test('an agent with SKILL.md, and one that polls', landAsAgent)
