import { existsSync, readdirSync, readFileSync, readlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { startServer } from '../../../../test/helpers/server.ts'
import { openOutput, removeOldLogs } from '../../src/cli/work/output.ts'
import { openWorkPlace } from '../helpers/working.ts'

const server = await startServer(t)
const place = await openWorkPlace(t, server, 'acme/rocket')
const program = [process.execPath, resolve(import.meta.dirname, '../../src/cli/main.ts')]
t.setTimeout(600_000)

t.test('the log of a run that is begun again goes on', async (t) => {
  const file = join(temporaryFolder(t), 'acme', 'x.log')
  for (const text of ['one\n', 'two\n']) {
    const output = openOutput('', { file, keep: 1 })
    await output.copy(Readable.from([Buffer.from(text)]), new PassThrough().resume())
    output.close()
  }
  t.equal(readFileSync(file, 'utf8'), 'one\ntwo\n')
})

t.test('a command goes on when what reads its output has ended', async (t) => {
  const command = ['sh', '-c', 'yes "a line of fifty characters, one of many in a log" | head -c 1000000']
  const sha = place.push('main', '')
  // With the labels of several jobs, what is read at once is longer than what waits in memory.
  const worker = place.workAlone(['--once', '--jobs', '2'], { command, program })
  worker.child.stdout?.destroy()
  t.match(await worker.finished, { code: 0, stdout: '' })
  t.match(await place.result(sha), /^success/)
})

t.test('only logs are removed, and the newest are kept', async (t) => {
  const folder = temporaryFolder(t)
  for (const name of ['a.log', 'notes.txt']) writeFileSync(join(folder, name), '')
  removeOldLogs(folder, 1)
  t.same(readdirSync(folder).sort(), ['a.log', 'notes.txt'])
})

t.test('the log of a command that is running stays', async (t) => {
  const folder = temporaryFolder(t)
  const logOf = (name: string) => ({ file: join(folder, name), keep: 1 })
  const running = openOutput('', logOf('running.log'))
  utimesSync(join(folder, 'running.log'), 1, 1)
  for (const name of ['first.log', 'second.log']) openOutput('', logOf(name)).close()
  t.strictSame(readdirSync(folder).length, 2)
  t.ok(existsSync(join(folder, 'running.log')))
  running.close()
  t.strictSame(readdirSync(folder).length, 1)
})

t.test('folders that a command removes do not change its result', async (t) => {
  const logs = join(temporaryFolder(t), 'logs')
  const sha = place.push('main', 'rm -r "$PWD" "$LOGS"')
  const { code, stderr } = await place.work(['--once', '--logs', logs], { env: { LOGS: logs } }).finished
  t.equal(code, 0, stderr)
  t.match(stderr, /warning: ENOENT: .*logs/)
  t.match(await place.result(sha), /^success/)
})

t.test('a command line that is too long is an error of the commit, and its log is closed', async (t) => {
  const logs = join(temporaryFolder(t), 'logs')
  const sha = place.push('main', '')
  const command = ['true', 'x'.repeat(200_000)]
  t.equal((await place.work(['--once', '--logs', logs], { command }).finished).code, 1)
  t.match(await place.result(sha), /^error: .*E2BIG/)
  t.strictSame(
    readdirSync('/proc/self/fd').filter((fd) => targetOf(fd).startsWith(logs)),
    [],
  )
})

/** Returns the file of a descriptor; empty if it was closed meanwhile. */
function targetOf(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    return ''
  }
}
