import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { affectedTests, changesSince } from './affected-tests.ts'

/**
 * Runs the scripts `check:*` of package.json in parallel, in their order, and prints the output of
 * those that fail. Then it names the test files that belong to changes that are not committed.
 */
const root = resolve(import.meta.dirname, '../..')
const manifest: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(resolve(root, 'package.json'), 'utf8'),
)
const pending = Object.entries(manifest.scripts).filter(([name]) => name.startsWith('check:'))

async function runChecks(): Promise<void> {
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const [name, command] = next
    const child = spawn(command, {
      cwd: root,
      shell: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ])
    if (code === 0) continue
    process.stderr.write(`${stdout}${stderr}failed: npm run ${name}\n`)
    process.exitCode = 1
  }
}

await Promise.all(Array.from({ length: availableParallelism() }, runChecks))
const tests = affectedTests(changesSince('HEAD'))
if (tests.length > 0) {
  const nearest = `${tests.slice(0, 8).join(', ')}${tests.length > 8 ? ', …' : ''}`
  process.stdout.write(
    `${tests.length} test files belong to what is not committed: ${nearest}\n\`npm run affected\` runs the nearest.\n`,
  )
}
