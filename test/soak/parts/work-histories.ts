import type { Test } from 'tap'
import { asAdministrator } from '../../helpers/changes.ts'
import { sqliteWithClock } from '../../helpers/clock.ts'
import { openTestStore, sqlite } from '../../helpers/databases.ts'
import { createRandom } from '../../helpers/random.ts'
import { startVirtualTime } from './virtual-time.ts'
import { runHistory } from './work-model.ts'
import { examine, type Found } from './work-oracle.ts'

const NAMES = ['commands', 'refused', 'overlaps', 'requests', 'swallowed'] as const

/**
 * Runs random histories and examines each.
 *
 * @returns what was found in all together
 * @throws Error naming the history
 */
export async function runHistories(t: Test, seed: number, histories: number): Promise<Found> {
  const time = startVirtualTime(t)
  const { store } = await openTestStore(t, sqliteWithClock(t, sqlite).database)
  const repository = { owner: 'acme', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  const { id: repositoryId } = await asAdministrator(store).repositories.create(repository)
  const sum: Found = { commands: 0, refused: 0, overlaps: 0, requests: 0, swallowed: 0 }
  for (let index = 0; index < histories; index++) {
    const random = createRandom(seed + index)
    const prefix = `${index.toString(16).padStart(8, '0')}a`
    try {
      const found = examine(await runHistory({ store, repositoryId, time, random }, prefix))
      for (const name of NAMES) sum[name] += found[name]
    } catch (error) {
      throw new Error(`the history of seed ${seed + index}`, { cause: error })
    }
  }
  return sum
}
