import t, { type Test } from 'tap'
import { combinedState } from '../../src/domain/states.ts'
import { databases, type TestDatabase, withoutLimit } from '../helpers/databases.ts'
import { type JsonBody, startServer } from '../helpers/server.ts'

const STATES = ['pending', 'success', 'failure', 'error'] as const

async function setUp(t: Test, database: TestDatabase) {
  const server = await startServer(t, { database: withoutLimit(database) })
  const { commits } = await server.createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const report = (body: object) => server.report('acme/rocket', sha, body, token)
  const read = async () => (await server.read('acme/rocket', sha)).json
  return { report, read }
}

for (const database of databases) {
  t.test(database.name, async (t) => {
    t.test('64 parallel reports on one context', async (t) => {
      const { report, read } = await setUp(t, database)
      const sent = Array.from({ length: 64 }, (_, index) => ({
        state: STATES[index % 4],
        context: 'ci/one',
        description: `${index}`,
        target_url: `https://e.org/${index}`,
      }))
      const stop = { now: false }
      const reading = readMeanwhile(t, read, stop)
      const answers = await Promise.all(sent.map((body) => report(body)))
      t.ok(
        answers.every(({ status }) => status === 201),
        'all 201',
      )
      t.equal(new Set(answers.map(({ json }) => json.id)).size, 1, 'one id')
      const { statuses: stored = [] } = await read()
      t.equal(stored.length, 1)
      t.match(
        stored[0],
        sent[Number(stored[0]?.description)] ?? t.fail('a row that nothing reported'),
        'the stored row is one of the reports',
      )
      const last = await report({ state: 'success', context: 'ci/one', description: 'last' })
      stop.now = true
      await reading
      t.same((await read()).statuses, [last.json], 'a later report replaces it')
      t.equal(last.json.id, stored[0]?.id)
    })

    t.test('64 parallel reports on 64 contexts of one commit', async (t) => {
      const { report, read } = await setUp(t, database)
      const stop = { now: false }
      const reading = readMeanwhile(t, read, stop)
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, index) =>
          report({ state: STATES[index % 4], context: `ci/${index}` }),
        ),
      )
      stop.now = true
      await reading
      t.ok(
        answers.every(({ status }) => status === 201),
        'all 201',
      )
      t.equal(new Set(answers.map(({ json }) => json.id)).size, 64, 'one id per context')
      const { statuses } = await read()
      const byContext = (left: JsonBody, right: JsonBody) =>
        String(left.context) < String(right.context) ? -1 : 1
      t.same(statuses, answers.map(({ json }) => json).sort(byContext))
    })
  })
}

/**
 * Reads in a loop until stopped: each answer must be consistent, and none may lack a context that
 * an earlier one had.
 */
async function readMeanwhile(t: Test, read: () => Promise<JsonBody>, stop: { now: boolean }): Promise<void> {
  let most = 0
  let inconsistent = 0
  while (!stop.now) {
    const { state, statuses = [] } = await read()
    const contexts = statuses.map(({ context }) => context)
    const consistent =
      state === combinedState(statuses.map((status) => status.state)) &&
      new Set(contexts).size === contexts.length &&
      contexts.length >= most
    if (!consistent) inconsistent++
    most = contexts.length
  }
  t.equal(inconsistent, 0, 'reads in the meantime are consistent')
}
