import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { lockOut, unavailability } from './answers.ts'
import { checks } from './checks.ts'
import { cliAdministration } from './cli-administration.ts'
import { Client } from './client.ts'
import { Coverage } from './coverage.ts'
import { environmentFixture, isDescribed, VARIABLES } from './environment-fixture.ts'
import { createFixture, type Fixture } from './fixture.ts'
import { startOwnServer } from './own-server.ts'
import type { Check, Run } from './run.ts'
import { type Contract, readContract } from './spec.ts'
import { storeAdministration } from './store-administration.ts'

const HELP = `Checks a running instance against openapi.yaml.

  npm run test:contract                          starts a server for the run
  npm run test:contract -- --base-url URL        any instance

  --base-url URL      URL of the instance, including its base path
  --requests N        continue with new values until N requests are sent (default: one round)
  --runs N            values per property in one round (default: 30; 5 with the command line as administrator)
  --seed N            seed of an earlier run to repeat
  --failures N        failed authentications that the run may cause before the instance blocks it (default: 20)
  --lock-me-out       at the end, fail authentication until the instance answers 429
  --spec FILE         the contract (default: openapi.yaml of this project)

With --base-url, the project's command line creates repositories and tokens, in the database that DATA_DIR or DATABASE_URL
configures. For an instance on another machine, set these variables instead:

${Object.entries(VARIABLES)
  .map(([name, meaning]) => `  ${name.padEnd(28)} ${meaning}`)
  .join('\n')}

The run writes statuses to these repositories. It prints a table of operations, statuses and numbers of requests. The
exit code is 1 when an answer violated the contract or a declared one was never seen.
`

const { values } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    requests: { type: 'string', default: '0' },
    runs: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    failures: { type: 'string', default: '20' },
    'lock-me-out': { type: 'boolean', default: false },
    spec: { type: 'string', default: resolve(import.meta.dirname, '../../openapi.yaml') },
    help: { type: 'boolean', default: false },
  },
})

const OWN_LIMIT = 1_000_000
const failed: string[] = []

if (values.help) print(HELP)
else process.exitCode = await main(await readContract(values.spec))

async function main(contract: Contract): Promise<number> {
  const coverage = new Coverage(contract)
  const baseUrl = values['base-url']
  print(`seed ${values.seed}`)
  if (baseUrl === undefined) await ownServer(contract, coverage)
  else await givenServer(contract, coverage, baseUrl)
  const notes = new Map<number, string>()
  if (baseUrl !== undefined) {
    notes.set(503, 'own server only')
    if (!values['lock-me-out']) notes.set(429, 'without --lock-me-out')
  }
  print(coverage.table(notes))
  const missing = coverage.missing().filter((gap) => !notes.has(Number(gap.split(' ')[1])))
  if (missing.length > 0) print(`declared and never seen: ${missing.join(', ')}`)
  if (failed.length > 0) print(`failed: ${failed.join('; ')}`)
  return missing.length + failed.length > 0 ? 1 : 0
}

async function ownServer(contract: Contract, coverage: Coverage): Promise<void> {
  const [server, strict] = [await startOwnServer(OWN_LIMIT), await startOwnServer(3)]
  try {
    const fixture = await createFixture(storeAdministration(server.store), 512)
    const client = new Client(contract, server.url, coverage)
    await rounds(
      { client, fixture, seed: Number(values.seed), runs: runs(30), failuresLeft: OWN_LIMIT - 10 },
      checks,
    )
    client.close()
    const strictFixture = await createFixture(storeAdministration(strict.store))
    const strictClient = new Client(contract, strict.url, coverage)
    await attempt(lockOut, {
      client: strictClient,
      fixture: strictFixture,
      seed: 0,
      runs: 1,
      failuresLeft: 0,
    })
    strictClient.close()
  } finally {
    await server.stop()
    await strict.stop()
  }
}

async function givenServer(contract: Contract, coverage: Coverage, baseUrl: string): Promise<void> {
  const described = isDescribed(process.env)
  const fixture: Fixture = described
    ? environmentFixture(process.env)
    : await createFixture(cliAdministration())
  const client = new Client(contract, baseUrl, coverage)
  const run = {
    client,
    fixture,
    seed: Number(values.seed),
    runs: runs(described ? 30 : 5),
    failuresLeft: Number(values.failures),
  }
  await rounds(
    run,
    checks.filter((check) => check !== unavailability),
  )
  if (values['lock-me-out']) await attempt(lockOut, run)
  client.close()
}

/** Runs all checks once, then repeats them with new values until enough requests are sent. */
async function rounds(run: Run, all: readonly Check[]): Promise<void> {
  const wanted = Number(values.requests)
  const { coverage } = run.client
  for (const check of all) await attempt(check, run)
  while (coverage.requests < wanted && failed.length === 0) {
    run.seed += 1
    for (const check of all) {
      if (coverage.requests < wanted && failed.length === 0) await attempt(check, run)
    }
  }
}

async function attempt(check: Check, run: Run): Promise<void> {
  const before = run.client.coverage.requests
  try {
    await check.run(run)
    print(`ok      ${check.name} (${run.client.coverage.requests - before} requests)`)
  } catch (error) {
    failed.push(check.name)
    print(
      `FAILED  ${check.name}, seed ${run.seed}\n${error instanceof Error ? error.message : String(error)}`,
    )
  }
}

function runs(usual: number): number {
  return values.runs === undefined ? usual : Number(values.runs)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
