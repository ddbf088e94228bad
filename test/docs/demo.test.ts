import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { minimalEnvironment } from '../helpers/process.ts'

const run = promisify(execFile)

t.test('the demo runs to its end, and its commands can be copied as they are', async (t) => {
  const folder = temporaryFolder(t)
  const { stdout } = await run(process.execPath, ['clients/demo/demo.ts', '--once'], {
    env: { ...minimalEnvironment(), TMPDIR: folder },
    timeout: 120_000,
  })
  t.same(readdirSync(folder), [], 'no files are left behind')
  const commands = stdout.replaceAll('\\\n', ' ').match(/^ {2}curl .*$/gm) ?? []
  t.equal(commands.length, 4)
  for (const command of commands) {
    const lines = await run('sh', ['-c', `curl() { printf '%s\\n' "$@"; }\n${command}`])
    const words = lines.stdout.trimEnd().split('\n')
    // Each option has a value.
    const addresses = words.filter((word, index) => !/^-/.test(word) && !/^-/.test(words[index - 1] ?? ''))
    t.equal(addresses.length, 1, command)
    t.match(addresses[0], /^http:\/\/127\.0\.0\.1:\d+\/api\/v1\/repos\/demo\/rocket\//)
  }
})
