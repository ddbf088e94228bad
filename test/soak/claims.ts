import { rmSync } from 'node:fs'
import tap, { type Test } from 'tap'
import { openStore } from '../../src/store/store.ts'
import { reportHistories } from '../helpers/claim-histories.ts'
import { databases, openTestStore, type TestDatabase } from '../helpers/databases.ts'
import { createFastFolder } from '../helpers/fast-folder.ts'
import { startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { startServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'
import { runHistories } from './parts/work-histories.ts'

/**
 * Random histories of claims, of reports and of workers, and claims at once: `npm run soak -- claims [PART]`,
 * where PART is `histories`, `race` or `workers`.
 */
const HISTORIES = Number(process.env.HISTORIES ?? 10_000)
const WORKER_HISTORIES = Number(process.env.HISTORIES ?? 20_000)
const ROUNDS = 200
const CLAIMS = 40

const [, , , part] = process.argv
tap.setTimeout(3_600_000)
await provideDatabases(tap)

for (const database of databases) {
  if (!isMeant('histories')) break
  tap.test(`${database.name}: ${HISTORIES} random histories of claims end as the model says`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const other = await openStore(options)
    t.teardown(() => other.close())
    const counts = await reportHistories([store, other], Date.now() % 1_000_000, HISTORIES)
    t.comment(JSON.stringify(counts))
    t.ok(counts.stored > HISTORIES && counts.refused > HISTORIES)
  })
}

for (const database of databases) {
  if (!isMeant('race')) break
  tap.test(`${database.name}: of ${CLAIMS} claims at once, at two servers, exactly one is stored`, (t) =>
    race(t, database),
  )
}

if (isMeant('workers'))
  tap.test(`${WORKER_HISTORIES} random histories of workers`, async (t) => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    t.comment(`seed ${seed}`)
    // Nothing here cuts the power, and a disk would take most of the time.
    const folder = createFastFolder()
    t.teardown(() => rmSync(folder, { recursive: true }))
    process.env.TMPDIR = folder
    const found = await runHistories(t, seed, WORKER_HISTORIES)
    t.comment(JSON.stringify(found))
    // About one in 2,000 is lost. The rest is chance.
    t.ok(found.swallowed <= 3 + found.requests / 1_000)
    t.ok(found.overlaps > 0 && found.refused > WORKER_HISTORIES)
    if (!t.passing()) return
    recordEvidence(
      'claims',
      'in virtual time, three workers stood still and were killed, reports were lost, late by up to 10 minutes and delivered twice, the server was away, branches moved back, and people asked for other runs',
      `${WORKER_HISTORIES} histories with ${found.commands} commands: each newest commit got its result, none of a run that had lost its claim was stored, and two commands ran on one commit at once ${found.overlaps} times, each beside a kill, a stall, an outage or a request; ${found.swallowed} of ${found.requests} requests were lost, each to a claim, delivered late, of a run that had begun before`,
    )
  })

function isMeant(name: string): boolean {
  return part === undefined || part === name
}

async function race(t: Test, database: TestDatabase): Promise<void> {
  const { options, ...server } = await startServer(t, { database })
  const { commits } = await server.createRepository('acme/rocket', { commits: 1 })
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const instances = await Promise.all([startInstance(t, options), startInstance(t, options)])
  for (let round = 0; round < ROUNDS; round++) {
    const claims = Array.from({ length: CLAIMS }, async (_, index) => {
      const report = { state: 'pending', context: `${round}`, run: `${index}`, claim: 300 }
      const answer = await instances[index % 2 === 0 ? 0 : 1].report('acme/rocket', sha, report, token)
      return { status: answer.status, retryAfter: answer.headers.get('retry-after') }
    })
    const answers = await Promise.all(claims)
    const winners = answers.filter(({ status }) => status === 201)
    const refused = answers.filter(({ status, retryAfter }) => status === 409 && Number(retryAfter) > 290)
    if (winners.length !== 1 || refused.length !== CLAIMS - 1)
      t.fail(`round ${round}: ${JSON.stringify(answers)}`)
  }
  t.pass(`${ROUNDS} rounds`)
}
