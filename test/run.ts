import { spawn } from 'node:child_process'
import { globSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createFastFolder } from './helpers/fast-folder.ts'
import { prepareDatabases } from './helpers/prepare-databases.ts'

/**
 * Runs all tests, or the files given as arguments, with tap. The last line is `N passed, N failed, N skipped`, counted
 * from tap's output. A run without a passed test fails.
 */
const root = resolve(import.meta.dirname, '..')
const [, , ...named] = process.argv
const all = ['test/**/*.test.ts', 'clients/*/test/**/*.test.ts']
const files = named.length > 0 ? named : globSync(all, { cwd: root, exclude: ['**/node_modules'] }).sort()
// The temporary files of this process, such as PostgreSQL's, and of all tests.
const folder = createFastFolder()
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
process.env.TMPDIR = folder
// Compiles each module once for all test files and the programs that they start.
process.env.NODE_COMPILE_CACHE = join(folder, 'compile-cache')
const databases = await prepareDatabases()
const tap = spawn(process.execPath, [join(import.meta.dirname, 'run-files.ts'), ...files], {
  cwd: root,
  env: { ...process.env, ...databases.environment, TAP_TIMEOUT: '120' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
// A signal stops tap; its `close` handler then removes the databases.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tap.kill(signal))

let output = ''
tap.stdout.setEncoding('utf8').on('data', (text: string) => {
  output += text
  // One line per file; failures follow at the end with their diagnostics.
  for (const line of text.split('\n')) if (/^(not )?ok |^# /.test(line)) process.stdout.write(`${line}\n`)
})

tap.on('close', async (code) => {
  const count = (name: string) =>
    Number(new RegExp(`^# \\{.*\\b${name}: (\\d+).*\\}$`, 'm').exec(output)?.[1] ?? 0)
  const [passed, failed, skipped] = [count('pass'), count('fail'), count('skip') + count('todo')]
  if (failed > 0 || code !== 0) process.stdout.write(`${failuresOf(output)}\n`)
  process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`)
  process.exitCode = code === 0 && failed === 0 && skipped === 0 && passed > 0 ? 0 : 1
  await databases.remove()
})

/** Returns the failed assertions with their diagnostics: a `not ok` line and the indented block below it. */
function failuresOf(text: string): string {
  return (text.match(/^ *not ok .*(\n +---\n[\s\S]*?\n +\.\.\.)?/gm) ?? []).join('\n')
}
