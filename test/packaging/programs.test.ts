import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { describeVariables } from '../../src/config.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { startProcess } from '../helpers/process.ts'

const run = promisify(execFile)
/** Makes a process believe that it runs on an older Node.js. */
const OLD_NODE =
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})'

for (const program of ['commit-status-server', 'commit-status-admin']) {
  t.test(`${program} on an older Node.js says so in one sentence`, async (t) => {
    const file = resolve(`src/bin/${program}.ts`)
    const old = startProcess(t, process.execPath, ['--import', OLD_NODE, file], {
      DATA_DIR: temporaryFolder(t),
    })
    t.same([await old.ended, old.stdout()], [1, ''])
    t.match(old.stderr(), /^commit-status-server needs Node\.js 24\.7 or later; this is 20\.20\.2\. .*\n$/)
  })
}

t.test('the server takes no arguments', async (t) => {
  const file = resolve('src/bin/commit-status-server.ts')
  const wrong = startProcess(t, process.execPath, [file, 'user', 'list'])
  t.equal(await wrong.ended, 2)
  for (const { name } of describeVariables()) t.match(wrong.stderr(), `\n  ${name} `, 'a column of its own')
  const usage =
    /^Usage: commit-status-server[\s\S]*\n {2}PORT +port to listen on[^\n]*\n +\(default: 3000\)\n[\s\S]*\nAdminister it/m
  t.match(wrong.stderr(), /^unknown argument "user" \(expected none, --help or --version\)\n/)
  t.match(wrong.stderr(), usage)
  t.match(await run(process.execPath, [file, '--help']), { stdout: usage, stderr: '' })
})
