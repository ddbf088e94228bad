import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import type { LandingPlace } from '../../../clients/typescript/test/helpers/landing.ts'
import { git } from '../../helpers/git.ts'
import { addReport } from '../../helpers/records.ts'

/** What a CI system does: builds each commit of each topic once, and reports. */
export interface ContinuousIntegration {
  /** Commits that it was asked to build, in order. */
  runs: string[]
  /** Commits for which it has reported success. */
  passed: Set<string>
  /** Beginnings of landed commits, as topics have them, whose checks fail. */
  failing: Set<string>
}

/**
 * Watches the topics of landings until the test ends.
 *
 * @param duration milliseconds of one run; by the beginning of the commit that is landed
 */
export function startContinuousIntegration(
  t: Pick<Test, 'teardown'>,
  { server, repository, path }: LandingPlace,
  duration: (id: string) => number,
): ContinuousIntegration {
  const runs: string[] = []
  const passed = new Set<string>()
  const failing = new Set<string>()

  async function build(sha: string, id: string): Promise<void> {
    runs.push(sha)
    await setTimeout(duration(id))
    const state = failing.has(id) ? 'failure' : 'success'
    // Before the report: once it is stored, the commit may land.
    if (state === 'success') passed.add(sha)
    await addReport({ store: server.store, repositoryId: repository.id, sha }, 'ci/test', state)
  }

  const timer = setInterval(() => {
    const topics = git(path, 'for-each-ref', '--format=%(objectname) %(refname)', 'refs/heads/land/main')
    for (const [, sha = '', id = ''] of topics.matchAll(/^(\w+) refs\/heads\/land\/main\/(\w+)$/gm))
      if (!runs.includes(sha)) void build(sha, id)
  }, 40)
  t.teardown(() => clearInterval(timer))
  return { runs, passed, failing }
}
