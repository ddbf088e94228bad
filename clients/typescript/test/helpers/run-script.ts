import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { minimalEnvironment } from '../../../../test/helpers/process.ts'
import { execute } from '../../src/cli/execute.ts'
import { commandLine, type Running, type RunningProcess, startHere } from './command-line.ts'
import type { Service } from './service.ts'

/** `commit-status run` over the service's proxy, with a shell script as its command. */
export function runScript(t: Test, service: Service, script: string, ...options: string[]): RunningProcess {
  return commandLine(t, argumentsOf(service, script, options), { env: environmentOf(service) })
}

/** The same in this process, for a script that prints nothing. */
export function runScriptHere(t: Test, service: Service, script: string, ...options: string[]): Running {
  const env = { ...minimalEnvironment(), ...environmentOf(service) }
  return startHere(t, (signals) => execute(argumentsOf(service, script, options), env, signals))
}

function argumentsOf(service: Service, script: string, options: readonly string[]): string[] {
  return ['run', ...placeOf(service), ...options, '--', 'sh', '-c', script]
}

/**
 * Options that name the service's commit, and a context that later options may replace. Nothing is
 * left to look for in a checkout.
 */
export function placeOf({ commit: { owner, repo, sha } }: Service): string[] {
  return ['--repo', `${owner}/${repo}`, '--sha', sha, '--context', 'default', '--target-url', '']
}

/** Returns a shell script that waits until `goOn` is called. */
export function waitingScript(t: Test): { script: string; goOn(): void } {
  const file = join(temporaryFolder(t), 'go-on')
  return { script: `until [ -e '${file}' ]; do sleep .05; done`, goOn: () => writeFileSync(file, '') }
}

/** Variables that lead to the service's proxy. */
export function environmentOf({ proxy, token }: Service): Record<string, string> {
  return { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TOKEN: token }
}

/** States in the order in which they came to the proxy, of reports that were stored, or of all. */
export function sentStates({ proxy }: Service, { stored = false } = {}): unknown[] {
  const passages = proxy.passages.filter(({ status }) => !stored || status === 201)
  return passages.map(({ body }): unknown => JSON.parse(body).state)
}

/** What `run` says if there is no answer for three seconds. */
export const SLOW = 'commit-status: no answer from the service yet; still trying\n'

/** Expects that nothing was said, unless a busy machine took so long that people wonder. */
export function expectQuiet(t: Test, stderr: string, began: number): void {
  const isSlow = performance.now() - began > 3_000
  t.equal(stderr, isSlow && stderr === SLOW ? SLOW : '')
}
