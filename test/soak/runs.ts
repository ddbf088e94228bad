import tap from 'tap'
import { openStore } from '../../src/store/store.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { type Arrival, reportSequences } from '../helpers/run-sequences.ts'

tap.setTimeout(1_800_000)
await provideDatabases(tap)

/**
 * Three runs of a check, of which the last one fails: `pending` and result of each, which began at
 * these times in milliseconds.
 */
function threeRuns(...began: [number, number, number]): Arrival[] {
  return began.flatMap((began, index): Arrival[] => [
    { run: `run ${index}`, state: 'pending', began },
    { run: `run ${index}`, state: index === 2 ? 'failure' : 'success', began },
  ])
}

const lateBy = (delay: number): Arrival => ({ run: 'run 0', state: 'success', began: 0, delay })

/** Each with the length of its sequences, and whether a success may hide that the last run failed. */
const SETS: readonly [name: string, arrivals: Arrival[], length: number, mayHide: boolean][] = [
  ['runs 20 s apart', threeRuns(0, 20_000, 40_000), 6, false],
  ['the first two within 5 s', threeRuns(0, 2_000, 40_000), 5, false],
  ['the first result also 30 s late', [...threeRuns(0, 20_000, 40_000), lateBy(30_000)], 5, false],
  // What the contract names as remaining.
  ['the last two within 5 s', threeRuns(0, 38_000, 40_000), 5, true],
  ['the first result also 90 s late', [...threeRuns(0, 20_000, 40_000), lateBy(90_000)], 5, true],
]

for (const database of databases)
  tap.test(`${database.name}: two servers answer all sequences of reports as the model`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const other = await openStore(options)
    t.teardown(() => other.close())
    for (const [name, arrivals, length, mayHide] of SETS) {
      const counts = await reportSequences([store, other], arrivals, length)
      t.comment(`${name}: ${JSON.stringify(counts)}`)
      t.equal(counts.wronglyGreen > 0, mayHide, name)
    }
  })
