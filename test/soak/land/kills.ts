import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { quickLander } from '../../../clients/typescript/test/helpers/landing.ts'
import { createRandom } from '../../helpers/random.ts'
import { recordEvidence } from '../parts/evidence.ts'
import { startContinuousIntegration } from './continuous-integration.ts'
import { checkTips, startRecorded } from './many.ts'

/**
 * Kills landings with SIGKILL at random times, with git or without it, and runs them again: each
 * commit lands in the end, tested no more often than `main` moved under it.
 */
export async function killLandings(t: Test, seed: number): Promise<void> {
  const KILLS = 200
  const AT_ONCE = 3
  const random = createRandom(seed)
  const place = await startRecorded(t)
  const ci = startContinuousIntegration(t, place, () => 300)
  /** How many were killed in which step. */
  const steps = { start: 0, ticket: 0, topic: 0, passed: 0 }
  let kills = 0
  let landed = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, lander) => {
      while (kills < KILLS) {
        const commit = place.write(place.ref('refs/heads/main'), {
          [`${lander}/${landed}-${kills}`]: 'new\n',
        })
        for (let attempt = 0; attempt < 8 && kills < KILLS; attempt++) {
          const program = { program: quickLander, detached: true }
          const { child, finished } = place.land([commit], program)
          const isOwn = (ref: string) => ref.includes(commit.slice(0, 12))
          const topic = () => place.leftovers().find((ref) => ref.startsWith('refs/heads/') && isOwn(ref))
          const reached = {
            start: () => true,
            ticket: () => place.leftovers().some(isOwn),
            topic: () => topic() !== undefined,
            passed: () => ci.passed.has(place.ref(topic() ?? 'refs/heads/main')),
          }
          const step = random.pick(['start', 'ticket', 'topic', 'passed'])
          while (child.exitCode === null && !reached[step]()) await setTimeout(20)
          await Promise.race([finished, setTimeout(random.below(400))])
          // git may go on without the lander, or is killed too.
          if (child.exitCode === null) {
            process.kill(random.onceIn(2) ? -(child.pid ?? 0) : (child.pid ?? 0), 'SIGKILL')
            kills++
            steps[step]++
          }
          const { code, stderr } = await finished
          assert(code === null || code === 0, stderr)
          if (code === 0) break
        }
        const end = await place.land([commit], { program: quickLander }).finished
        assert.equal(end.code, 0, end.stderr)
        landed++
      }
    }),
  )
  const tips = checkTips(place, ci.passed)
  t.equal(tips, landed, 'each commit landed once')
  t.ok(
    Object.values(steps).every((count) => count > KILLS / 10),
    'kills in all steps',
  )
  t.comment(`${kills} kills: ${JSON.stringify(steps)}; ${landed} landed, ${ci.runs.length} CI runs`)
  if (t.counts.fail > 0) return
  recordEvidence(
    'land',
    'landings were killed at random times, with git or without it, and run again',
    `${kills} kills: each of ${landed} commits landed once, tested`,
  )
}
