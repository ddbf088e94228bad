import assert from 'node:assert/strict'
import type { Test } from 'tap'
import { land } from '../../../clients/typescript/src/cli/land/land.ts'
import { type LandingPlace, startLanding } from '../../../clients/typescript/test/helpers/landing.ts'
import { capture } from '../../helpers/cli.ts'
import { git } from '../../helpers/git.ts'
import { createRandom } from '../../helpers/random.ts'
import type { RepositoryOptions } from '../../helpers/records.ts'
import { startContinuousIntegration } from './continuous-integration.ts'

/**
 * Those of `land` for a timeout of ten minutes, in milliseconds, but with four times as many looks
 * at the tickets. More would slow down the one who lands: each costs seven processes, and a
 * heartbeat more.
 */
export const times = { heartbeat: 60_000, grace: 200_000, interval: 750 }

/** Lands a commit in this process, which is faster. All landings share the checkout. */
export async function landHere({ checkout, environment }: LandingPlace, commit: string, timesOf = times) {
  process.chdir(checkout)
  const args = [commit, '--repo', 'acme/rocket', '--timeout', '10m']
  const start = performance.now()
  const result = await capture(() => land(args, environment, process, () => timesOf))
  return { ...result, milliseconds: performance.now() - start }
}

/** Starts a server whose repository records each tip that `main` gets from now on. */
export async function startRecorded(t: Test, options: RepositoryOptions = {}): Promise<LandingPlace> {
  const place = await startLanding(t, options)
  git(place.path, 'config', 'core.logAllRefUpdates', 'always')
  return place
}

/**
 * Checks that each tip that `main` got had passed, and descends from the one before it. Returns how
 * many there were.
 */
export function checkTips({ path }: LandingPlace, passed: ReadonlySet<string>): number {
  const tips = git(path, 'reflog', 'show', '--format=%H', 'main').split('\n').reverse()
  for (const [index, sha] of tips.entries()) {
    assert(passed.has(sha), `${sha} got to main without its checks`)
    const before = tips[index - 1]
    if (before) git(path, 'merge-base', '--is-ancestor', before, sha)
  }
  return tips.length
}

/**
 * Lands ten commits by each of ten at once, with random times and failures; the checks of one of
 * them take ten times as long.
 */
export async function landMany(t: Test, seed: number): Promise<void> {
  const LANDERS = 10
  const COMMITS = 10
  const random = createRandom(seed)
  const place = await startRecorded(t)
  const slow = new Set<string>()
  const ci = startContinuousIntegration(t, place, (id) => (slow.has(id) ? 2_500 : 100 + random.below(300)))
  let failures = 0
  const waits: number[] = []
  await Promise.all(
    Array.from({ length: LANDERS }, async (_, lander) => {
      for (let index = 0; index < COMMITS; index++) {
        let commit = place.write(place.ref('refs/heads/main'), { [`${lander}/${index}`]: 'new\n' })
        const id = commit.slice(0, 12)
        if (lander === 0) slow.add(id)
        let spent = 0
        if (random.onceIn(8)) {
          ci.failing.add(id)
          failures++
          const refused = await landHere(place, commit)
          assert.equal(refused.code, 1, refused.stderr + refused.stdout)
          spent += refused.milliseconds
          commit = place.write(commit, { [`${lander}/${index}`]: 'mended\n' })
        }
        const landed = await landHere(place, commit)
        assert.equal(landed.code, 0, landed.stderr + landed.stdout)
        waits.push(spent + landed.milliseconds)
      }
    }),
  )
  const tips = checkTips(place, ci.passed)
  assert.equal(tips, LANDERS * COMMITS)
  t.same(place.leftovers(), [], 'no ticket or topic is left')
  const runs = ((ci.runs.length - failures) / tips).toFixed(2)
  const longest = Math.max(...waits) / 1_000
  t.pass(
    `seed ${seed}: ${tips} landed, ${runs} CI runs for each (${failures} failed runs aside), longest wait ${longest.toFixed(1)} s`,
  )
}
