import { resolve } from 'node:path'
import { checks } from '../checks.ts'
import { Client } from '../client.ts'
import { Coverage } from '../coverage.ts'
import { createFixture } from '../fixture.ts'
import { startOwnServer } from '../own-server.ts'
import type { Run } from '../run.ts'
import { readContract } from '../spec.ts'
import { storeAdministration } from '../store-administration.ts'
import { faults } from './list.ts'

/**
 * Gives the server one fault after the other, and shows that the contract run catches each. Ends with code 1 when one
 * was not caught, or when a check fails on the server as it is.
 *
 *   npm run test:mutants -- [NAME...]
 */
const LIMIT = 100_000
const RUNS = 40
const hook = resolve(import.meta.dirname, 'hook.ts')
const contract = await readContract(resolve(import.meta.dirname, '../../../openapi.yaml'))
const named = process.argv.slice(2)
const names = named.length > 0 ? named : Object.keys(faults)

const sound = named.length > 0 ? null : await firstFailure(undefined)
if (sound) fail(`the server fails without any fault: ${sound}`)
for (const name of names) {
  const caught = await firstFailure(name)
  process.stdout.write(
    `${caught ? 'caught' : 'MISSED'}  ${name}\n${caught ? `          by: ${caught}\n` : ''}`,
  )
  if (!caught) fail(`not caught: ${name}`)
}

/** Which check failed first, and how; null when all passed. */
async function firstFailure(fault: string | undefined): Promise<string | null> {
  const options =
    fault === undefined ? {} : { nodeOptions: ['--import', hook], environment: { FAULT: fault } }
  const server = await startOwnServer({ failureLimit: LIMIT, ...options })
  const client = new Client(contract, server.url, new Coverage(contract))
  try {
    const fixture = await createFixture(storeAdministration(server.store))
    const run: Run = { client, fixture, seed: 1, runs: RUNS, failuresLeft: LIMIT - 10 }
    for (const check of checks) {
      const failure = await check.run(run).then(
        () => null,
        (error: unknown) => `${check.name}: ${summary(error)}`,
      )
      if (failure !== null) return failure
    }
    return null
  } finally {
    client.close()
    await server.stop()
  }
}

/** What was wrong, without the counterexample's length. */
function summary(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const text = cause instanceof Error ? cause.message : String(cause)
  return text.split('\n').filter(Boolean).slice(0, 1).join(' ').slice(0, 160)
}

function fail(reason: string): void {
  process.stderr.write(`${reason}\n`)
  process.exitCode = 1
}
