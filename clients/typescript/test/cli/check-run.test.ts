import { mock } from 'node:test'
import t from 'tap'
import { shells } from '../../../shell/test/shells.ts'
import { namedRun, withRun } from '../../src/cli/check-run.ts'
import { commandLine } from '../helpers/command-line.ts'
import { environmentOf, placeOf } from '../helpers/run-script.ts'
import { type Service, startService } from '../helpers/service.ts'

const first = await startService(t, { commits: 12 })
t.jobs = 4
t.setTimeout(90_000)

const NEWER = 'commit-status: a newer run reports default now\n'
const secondsAgo = (seconds: number) => `${Math.floor(Date.now() / 1000) - seconds}`

t.test('--began is a time in seconds, or in the form of RFC 3339', (t) => {
  const began = (text: string) => namedRun({ run: 'a', began: text })?.began
  t.equal(began('1769860800'), 1769860800_000)
  t.equal(began('1769860800.5'), 1769860800_500)
  for (const text of ['2026-01-31T12:00:00Z', '2026-01-31t12:00:00.000z', '2026-01-31 13:30:00+01:30'])
    t.equal(began(text), 1769860800_000, text)
  for (const text of ['1769860800000', 'now', '2026-01-31', '2026-01-31T12:00:00', '2026-13-31T12:00:00Z'])
    t.throws(() => began(text), { name: 'UsageError', message: `got "${text}"` })
  t.throws(() => namedRun({ began: '1769860800' }), { message: /--began needs --run/ })
  for (const run of ['', undefined])
    t.equal(namedRun({ run, began: '' }), undefined, 'variables that the system does not have')
  t.end()
})

t.test('a report says how long ago its run began whenever it is sent', (t) => {
  const at = (began: number) => withRun({ state: 'success' }, { id: 'a', began }).elapsed
  t.equal(at(Date.now() + 60_000), 0, 'a clock that is behind')
  t.equal(at(0), 30 * 86_400_000, 'as long ago as the contract allows')
  // Within one turn, since other tests run beside this one.
  mock.timers.enable({ apis: ['Date'], now: 1_000 })
  const report = withRun({ state: 'success' }, { id: 'a', began: Date.now() })
  mock.timers.tick(20)
  const sent = JSON.stringify(report)
  mock.timers.reset()
  t.equal(sent, '{"state":"success","run":"a","elapsed":20}')
  t.end()
})

/** The command of each client. */
const clients = [
  { name: 'Node.js', program: undefined },
  ...shells.slice(0, 1).map(({ name, program }) => ({ name, program })),
]

for (const { name, program } of clients) {
  const start = (service: Service, ...args: string[]) =>
    commandLine(t, args, { env: environmentOf(service), ...(program && { program }) })
  const bodies = (service: Service) => service.proxy.passages.map(({ body }) => JSON.parse(body))

  t.test(`${name}: a run that began later wins, and nothing else changes`, { buffered: true }, async (t) => {
    const service = await first.again()
    const run = (script: string, ...of: string[]) =>
      start(service, 'run', ...placeOf(service), ...of, '--strict', '--', 'sh', '-c', script).finished
    const older = ['--run', 'pipeline 1', '--began', secondsAgo(120)]
    const newer = ['--run', 'pipeline 2', '--began', secondsAgo(60)]
    t.match(await run('exit 3', ...newer), { code: 3, stderr: '' })
    t.match(await run('', ...older), { code: 0, stdout: '', stderr: NEWER })
    t.match(await run('exit 4', ...older), { code: 4, stderr: NEWER })
    t.strictSame(await service.stored(), ['default failure'])
    t.match(await run('', ...newer), { code: 0, stderr: '' }, 'its pending came late')
    t.strictSame(await service.stored(), ['default success'])
    t.match(await run('exit 5'), { code: 5, stderr: '' }, 'a run of its own')
    t.match(await run('', ...newer), { code: 0, stderr: NEWER })
    const runs = new Set(bodies(service).map(({ run }) => run))
    t.equal(runs.size, 3)
  })

  t.test(`${name}: report --run --began`, { buffered: true }, async (t) => {
    const service = await first.again()
    const report = (state: string, ...of: string[]) =>
      start(service, 'report', ...placeOf(service), '--state', state, ...of).finished
    const [older, newer] = [secondsAgo(120), secondsAgo(60)]
    const id = 'ü'.repeat(65)
    t.match(await report('failure', '--run', id, '--began', newer), { code: 0, stderr: '' })
    t.match(await report('success', '--run', 'a', '--began', older), { code: 0, stdout: '', stderr: NEWER })
    t.match(await report('pending', '--run', id, '--began', newer), { code: 0, stderr: /came too late/ })
    for (const began of ['soon', '2026-13-01T12:00:00Z', '2026-01-32T12:00:00Z', '2026-01-31T12:60:00Z'])
      t.match(
        await report('success', '--run', 'a', '--began', began),
        { code: 2, stderr: '--began must be' },
        began,
      )
    t.match(await report('success', '--began', older), { code: 2, stderr: /--began needs --run/ })
    t.strictSame(await service.stored(), ['default failure'])
    const [sent] = bodies(service)
    t.equal(
      sent.run,
      '093c56fb02c0d9587ac735226f1782d01df6c8f50f63ed494ec2e671a6bb0d00',
      'a long id is sent as its SHA-256',
    )
    t.ok(sent.elapsed >= 60_000 && sent.elapsed < 80_000)
    t.match(await report('success', '--run', '', '--began', ''), { code: 0, stderr: '' })
    t.notMatch(bodies(service).at(-1), { run: String })
  })

  t.test(`${name}: a pending that is held back delays nothing`, { buffered: true }, async (t) => {
    const service = await first.again()
    const { promise: heldUntil, resolve: release } = Promise.withResolvers<void>()
    service.proxy.plan({ heldUntil })
    const running = start(service, 'run', ...placeOf(service), '--', 'sh', '-c', 'exit 6')
    t.equal((await running.finished).code, 6)
    t.strictSame(await service.stored(), ['default failure'])
    release()
    await service.proxy.arrived(2)
    t.strictSame(
      bodies(service).map(({ state }) => state),
      ['pending', 'failure'],
    )
    t.strictSame(await service.stored(), ['default failure'], 'after its pending arrived')
  })
}

t.test('report --json prints why a newer run is kept', async (t) => {
  const service = await first.again()
  const report = (state: string, ...of: string[]) => {
    const args = ['report', '--json', ...placeOf(service), '--state', state, ...of]
    return commandLine(t, args, { env: environmentOf(service) }).finished
  }
  const newer = ['--run', 'b', '--began', secondsAgo(60)]
  t.match(JSON.parse((await report('failure', ...newer)).stdout), { state: 'failure' })
  const older = await report('success', '--run', 'a', '--began', secondsAgo(120))
  t.match(older, { code: 0, stderr: NEWER })
  t.match(JSON.parse(older.stdout), { error: /A newer run/ })
  const late = await report('pending', ...newer)
  t.equal(late.code, 0)
  t.match(JSON.parse(late.stdout), { error: /came too late/ })
})
