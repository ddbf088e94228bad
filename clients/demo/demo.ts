import '../../src/runtime.ts'
import { rm } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { createClient, type Status, type StatusReport } from '../typescript/src/index.ts'
import { prepare } from './prepare.ts'
import { startServer } from './server-process.ts'
import { printCommit, say } from './table.ts'
import { startWorker } from './worker-process.ts'

/**
 * Shows the main job on real input: a git repository is created and pushed to, a CI job reports on
 * its commits through the typed client, and the combined states are read back. Everything lies in a
 * temporary folder.
 *
 * `--once` ends it instead of leaving the server running.
 */
const { values } = parseArgs({ options: { once: { type: 'boolean', default: false } } })

// Output may be cut off (`| head`). The server and its files must still be cleaned up.
process.stdout.on('error', () => {})
const setup = await prepare()
const server = await startServer(setup.dataDir)
// Ctrl-C reaches the server too; this process keeps running only to clean up.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => server.stop())
let worker: Awaited<ReturnType<typeof startWorker>> | undefined
const end = async () => {
  await worker?.stop()
  await server.stop()
  await rm(setup.folder, { recursive: true, force: true })
}

try {
  const client = createClient({ baseUrl: server.url, token: setup.token })
  const repository = { owner: 'demo', repo: 'rocket' }
  const [first = '', second = '', third = '', newest = ''] = setup.commits

  /** Reports a status. Returns why it was refused, if a newer run has reported. */
  const report = async (
    sha: string,
    context: string,
    state: Status['state'],
    description: string,
    run?: Pick<StatusReport, 'run' | 'elapsed'>,
  ) => {
    const target_url = `https://ci.example.org/${context}/${sha.slice(0, 10)}`
    const { status, body } = await client.reportStatus({
      ...repository,
      sha,
      body: { context, state, description, target_url, ...run },
    })
    if (status === 201) return undefined
    if (status === 409) return `${status}: ${body.error}`
    throw new Error(`${status}: ${body.error}`)
  }
  const show = async (sha: string, title: string) => {
    const { status, body } = await client.listStatuses({ ...repository, sha })
    if (status !== 200) throw new Error(`${status}: ${body && 'error' in body ? body.error : ''}`)
    printCommit(title, sha, body)
  }

  say(`The repository demo/rocket has ${setup.commits.length} commits. A CI job starts checking them …`)
  for (const sha of [first, second]) {
    for (const context of ['ci/build', 'ci/lint', 'ci/test'])
      await report(sha, context, 'pending', 'In progress')
  }
  await show(second, 'While the checks run')

  await report(first, 'ci/build', 'success', 'Built in 41 s')
  await report(first, 'ci/lint', 'success', 'No warnings')
  await report(first, 'ci/test', 'success', '412 tests passed')
  await report(second, 'ci/build', 'success', 'Built in 43 s')
  await report(second, 'ci/lint', 'success', 'No warnings')
  await report(second, 'ci/test', 'failure', '2 of 414 tests failed')
  await show(first, 'All checks have passed')
  await show(second, 'One check has failed')
  await show(third, 'Nothing has reported yet')

  say('Two CI runs test one commit. The older one ends last …')
  await report(third, 'ci/build', 'pending', 'Run 1', { run: '1', elapsed: 600_000 })
  await report(third, 'ci/build', 'failure', 'Run 2: exit code 1', { run: '2', elapsed: 60_000 })
  await show(third, 'Run 2 has failed')
  const refusal = await report(third, 'ci/build', 'success', 'Run 1: passed', { run: '1', elapsed: 601_000 })
  say(`Run 1 is answered ${refusal}`)
  await show(third, 'The run that began last counts')

  say('A push starts CI: a worker asks what has no result, runs ci.sh on a clean checkout, and reports …')
  worker = await startWorker(server.url, setup)
  const result = await client.waitForState(
    { ...repository, sha: newest },
    { require: ['ci'], only: true, settle: 0, interval: 200, timeout: 120_000 },
  )
  if (result.outcome !== 'success') throw new Error(`the worker's result is ${result.outcome}`)
  await show(newest, 'The worker has reported')

  const path = `${server.url}/api/v1/repos/demo/rocket`
  say(`The same with curl:

  curl -X POST ${path}/statuses/${third} \\
    -H 'Authorization: Bearer ${setup.token}' -H 'Content-Type: application/json' \\
    -d '{"state": "success", "context": "ci/build", "description": "412 tests passed"}'

  curl ${path}/commits/${third}/statuses

The newest commit of main that has passed ci/test, and the branches with their states:

  curl '${path}/last-passed?branch=main&require=ci/test'

  curl ${path}/branches

Push, and the worker runs ci.sh again; git takes any user name, and the token above as the password:

  cd "$(mktemp -d)" && git clone ${server.url}/demo/rocket.git . && git commit --allow-empty --message again && git push

In a browser:

  ${server.url}/docs                 the API, rendered from openapi.yaml
  ${server.url}/demo/rocket          the commits with their states
  ${server.url}/settings/tokens      sign in as "demo" with the password "${setup.password}"
`)

  if (!values.once) {
    say('The server runs until you press Ctrl-C.')
    await server.stopped
  }
} finally {
  await end()
}
if (!values.once) say('The demo has ended, and its files are removed.')
