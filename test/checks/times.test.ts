import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { dearestFiles, measureTest, readTimes } from '../times.ts'

t.test('the time of a test is its own and that of its processes, apart from waits', async (t) => {
  const list = join(t.testdir(), 'times')
  const endWaiting = measureTest('waits.test.ts', list)
  await setTimeout(300)
  endWaiting()
  const endWorking = measureTest('starts.test.ts', list)
  const work = 'while (process.cpuUsage().user < 200_000);'
  await promisify(execFile)(process.execPath, ['-e', work])
  endWorking()
  const times = readTimes(list)
  const [waits, starts] = times
  // A timer may end a moment early.
  t.ok(waits && waits.wall > 0.29 && waits.cpu < 0.2, JSON.stringify(waits))
  t.ok(starts && starts.cpu >= 0.19 && starts.wall >= starts.cpu / 2, JSON.stringify(starts))
  const [title, dearest] = dearestFiles(times)
  t.match([title, dearest], [/CPU/, / s {2}starts\.test\.ts$/])
})

t.test('a file for which no time is left is skipped', async (t) => {
  const list = join(t.testdir({ times: '' }), 'times')
  const program = join(import.meta.dirname, '../run-together.ts')
  // Its assertions fail.
  const file = 'test/checks/fixtures/separators.ts'
  const run = spawnSync(process.execPath, [program, file], {
    encoding: 'utf8',
    env: { ...process.env, TAP_TIMEOUT: '60', TEST_TIMES: list, TEST_UNTIL: String(Date.now() - 1) },
  })
  t.match(run.stdout, `ok 1 - ${file} # SKIP no time left`)
  t.same([run.status, readTimes(list)], [0, []])
})
