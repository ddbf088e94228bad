import { resolve } from 'node:path'
import { checks } from '../checks.ts'
import { Client } from '../client.ts'
import { Coverage } from '../coverage.ts'
import { createFixture } from '../fixture.ts'
import { startOwnServer } from '../own-server.ts'
import type { Run } from '../run.ts'
import { readContract } from '../spec.ts'
import { storeAdministration } from '../store-administration.ts'
import { mutants } from './list.ts'

/**
 * Runs the contract checks against each mutant of the server. The exit code is 1 when no check
 * fails for a mutant, or when a check fails for the unchanged server.
 *
 *   npm run test:mutants -- [NAME...]
 */
const LIMIT = 100_000
const RUNS = 40
const hook = resolve(import.meta.dirname, 'hook.ts')
const contract = await readContract(resolve(import.meta.dirname, '../../../openapi.yaml'))
const named = process.argv.slice(2)
const names = named.length > 0 ? named : Object.keys(mutants)

const failure = named.length > 0 ? null : await firstFailure(undefined)
if (failure) fail(`the unchanged server fails: ${failure}`)
for (const name of names) {
  const killedBy = await firstFailure(name)
  process.stdout.write(
    `${killedBy ? 'killed  ' : 'SURVIVED'}  ${name}\n${killedBy ? `          by: ${killedBy}\n` : ''}`,
  )
  if (!killedBy) fail(`survived: ${name}`)
}

/** Returns the first check that fails, with its message; null if all pass. */
async function firstFailure(mutant: string | undefined): Promise<string | null> {
  const server =
    mutant === undefined
      ? await startOwnServer(LIMIT)
      : await startOwnServer(LIMIT, { MUTANT: mutant }, ['--import', hook])
  const client = new Client(contract, server.url, new Coverage(contract))
  try {
    const fixture = await createFixture(storeAdministration(server.store))
    const run: Run = { client, fixture, seed: 1, runs: RUNS, failuresLeft: LIMIT - 10, codePointStep: 37 }
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

/** Returns the first line of a failure, without the counterexample. */
function summary(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const text = cause instanceof Error ? cause.message : String(cause)
  return text.split('\n').filter(Boolean).slice(0, 1).join(' ').slice(0, 160)
}

function fail(reason: string): void {
  process.stderr.write(`${reason}\n`)
  process.exitCode = 1
}
