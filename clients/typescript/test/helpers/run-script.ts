import type { Test } from 'tap'
import { commandLine, type Running } from './command-line.ts'
import type { Service } from './service.ts'

/** `commit-status run` over the service's proxy, with a shell script as its command. */
export function runScript(t: Test, service: Service, script: string, ...options: string[]): Running {
  return commandLine(t, ['run', ...placeOf(service), ...options, '--', 'sh', '-c', script], {
    env: environmentOf(service),
  })
}

/**
 * Options that name the service's commit, and a context that later options may replace. Nothing is
 * left to look for in a checkout.
 */
export function placeOf({ commit: { owner, repo, sha } }: Service): string[] {
  return ['--repo', `${owner}/${repo}`, '--sha', sha, '--context', 'default', '--target-url', '']
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
