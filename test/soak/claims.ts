import tap, { type Test } from 'tap'
import { openStore } from '../../src/store/store.ts'
import { reportHistories } from '../helpers/claim-histories.ts'
import { databases, openTestStore, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { startServer } from '../helpers/server.ts'

const HISTORIES = Number(process.env.HISTORIES ?? 10_000)
const ROUNDS = 200
const CLAIMS = 40

tap.setTimeout(3_600_000)
await provideDatabases(tap)

for (const database of databases) {
  tap.test(`${database.name}: ${HISTORIES} random histories of claims end as the model says`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const other = await openStore(options)
    t.teardown(() => other.close())
    const counts = await reportHistories([store, other], Date.now() % 1_000_000, HISTORIES)
    t.comment(JSON.stringify(counts))
    t.ok(counts.stored > HISTORIES && counts.refused > HISTORIES)
  })

  tap.test(`${database.name}: of ${CLAIMS} claims at once, at two servers, exactly one is stored`, (t) =>
    race(t, database),
  )
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
