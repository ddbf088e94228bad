import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { git } from '../../../../test/helpers/git.ts'
import { shells } from '../../../shell/test/shells.ts'
import { namedRun } from '../../src/cli/check-run.ts'
import { call, commandLine } from '../helpers/command-line.ts'
import { environmentOf, expectQuiet, placeOf, waitingScript } from '../helpers/run-script.ts'
import { type Service, startService } from '../helpers/service.ts'

const first = await startService(t, { commits: 40 })
t.jobs = 4
t.setTimeout(120_000)

const NEWER = 'commit-status: a newer run reports default now\n'
const secondsAgo = (seconds: number) => `${Math.floor(Date.now() / 1000) - seconds}`
/** The time of the first and of the second pipeline, by the clock of the CI system. */
const [OLDER, NEWER_BEGAN] = [150, 75]

/** Times that `--began` takes, and others; both clients take the same. */
const times: [text: string, isTaken: boolean][] = [
  ['1769860800', true],
  ['1769860800.5', true],
  ['0', true],
  ['99999999999', true],
  ['2026-01-31T12:00:00Z', true],
  ['2026-01-31t12:00:00.000z', true],
  ['2026-01-31 13:30:00+01:30', true],
  ['2026-01-31T12:00:00-23:59', true],
  ['2024-02-29T00:00:00Z', true],
  ['2000-02-29T23:59:59Z', true],
  ['1969-12-31T23:59:59.123456789Z', true],
  ['100000000000', false],
  ['1769860800000', false],
  ['1769860800.', false],
  ['-5', false],
  ['+1769860800', false],
  ['1e9', false],
  [' 1769860800', false],
  ['1769860800\n', false],
  ['1769860800\n1769860800', false],
  ['now', false],
  ['2026-01-31', false],
  ['2026-01-31T12:00:00', false],
  ['2026-1-31T12:00:00Z', false],
  ['2026-13-01T12:00:00Z', false],
  ['2026-00-10T12:00:00Z', false],
  ['2026-01-00T12:00:00Z', false],
  ['2026-01-32T12:00:00Z', false],
  ['2026-04-31T12:00:00Z', false],
  ['2026-02-29T12:00:00Z', false],
  ['2100-02-29T12:00:00Z', false],
  ['2026-01-31T24:00:00Z', false],
  ['2026-01-31T12:60:00Z', false],
  ['2026-01-31T12:00:60Z', false],
  ['2026-01-31T12:00:00+24:00', false],
  ['2026-01-31T12:00:00+0130', false],
  ['2026-01-31T12:00:00Z\n', false],
  ['12026-01-31T12:00:00Z', false],
]

/** A folder for a test. */
function temporary(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'clock-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * Returns variables of a machine whose clock is so many seconds ahead as a file says, and the file.
 */
function clockOf(t: Test, ahead: number): { env: Record<string, string>; file: string } {
  const folder = temporary(t)
  const file = join(folder, 'ahead')
  writeFileSync(file, `${ahead}`)
  const preload = `import { readFileSync } from 'node:fs'
const now = Date.now
Date.now = () => now() + readFileSync(process.env.AHEAD, 'utf8') * 1000
globalThis.Date = class extends Date {
  constructor(...values) { super(...(values.length > 0 ? values : [Date.now()])) }
}`
  writeFileSync(join(folder, 'date.mjs'), preload)
  const date = '#!/bin/sh\necho $(($(/bin/date +%s) + $(cat "$AHEAD")))\n'
  writeFileSync(join(folder, 'date'), date, { mode: 0o755 })
  const NODE_OPTIONS = `--import=${join(folder, 'date.mjs')}`
  return { env: { AHEAD: file, NODE_OPTIONS, PATH: `${folder}:${process.env.PATH}` }, file }
}

/** What the Node.js client says of a time. */
function problemOf(began: string): string {
  try {
    namedRun({ run: 'a', began }, {})
    return ''
  } catch (error) {
    return String(error)
  }
}

/** The command of each client. */
const clients = [
  { name: 'Node.js', program: undefined },
  ...shells.slice(0, 1).map(({ name, program }) => ({ name, program })),
]

for (const { name, program } of clients) {
  const startWith = (service: Service, env: Record<string, string>, ...args: string[]) =>
    commandLine(t, args, { env: { ...environmentOf(service), ...env }, ...(program && { program }) })
  const start = (service: Service, ...args: string[]) => startWith(service, {}, ...args)
  /** Runs what prints nothing through programs, in this process where it can. */
  const runWith = (service: Service, env: Record<string, string>, ...args: string[]) =>
    program
      ? startWith(service, env, ...args).finished
      : call(args, { PATH: process.env.PATH ?? '', ...environmentOf(service), ...env })
  const reportWith = (service: Service, env: Record<string, string>, ...args: string[]) =>
    runWith(service, env, 'report', ...args)
  const bodies = (service: Service) =>
    service.proxy.passages.flatMap(({ body }) => (body ? [JSON.parse(body)] : []))

  t.test(`${name}: --began takes times that exist`, { buffered: true }, async (t) => {
    for (const [text, isTaken] of times) {
      const read = program
        ? (await start(first, 'report', '--run', 'a', '--began', text, '--state', '').finished).stderr
        : problemOf(text)
      t.equal(!/--began must be in seconds/.test(read), isTaken, JSON.stringify(text))
    }
  })

  t.test(`${name}: --run and --began that are malformed or empty`, { buffered: true }, async (t) => {
    const service = await first.again()
    const report = (...of: string[]) =>
      reportWith(service, {}, ...placeOf(service), '--state', 'success', ...of)
    for (const id of ['a\tb', 'a\n', '\x1f'])
      t.match(await report('--run', id), { code: 2, stderr: /--run must not contain tabs/ })
    t.match(await report('--began', '5'), { code: 2, stderr: /--began needs --run/ })
    t.equal(service.proxy.passages.length, 0)
    const empty = await report('--run', '', '--began', '')
    t.match(empty, {
      code: 0,
      stderr: /--run is empty, so it was left out\n.*--began is empty, so it was left out\n/,
    })
    t.notMatch(bodies(service)[0], { run: String })
    t.match(await report('--run', 'a', '--began', ''), { code: 0, stderr: /--began is empty/ })
    t.match(bodies(service)[1], { run: 'a', elapsed: Number })
    t.ok(bodies(service)[1].elapsed < 20_000)
  })

  t.test(`${name}: the clock of the machine decides nothing`, { buffered: true }, async (t) => {
    for (const ahead of [-300, 90]) {
      const service = await first.again()
      const { env } = clockOf(t, ahead)
      const report = (id: string, seconds: number, state: string, of: Record<string, string>) => {
        const run = ['--run', id, '--began', secondsAgo(seconds), '--state', state]
        return startWith(service, of, 'report', ...placeOf(service), ...run).finished
      }
      await report('older', OLDER, 'success', {})
      t.match(await report('newer', NEWER_BEGAN, 'failure', env), { code: 0 }, `${ahead} s ahead`)
      const { elapsed } = bodies(service).at(-1)
      t.ok(elapsed >= (NEWER_BEGAN - 2) * 1_000 && elapsed < OLDER * 1_000 - 5_000, `${elapsed} ms`)
      t.strictSame(await service.stored(), ['default failure'])
    }
  })

  t.test(`${name}: a clock that is corrected while a run goes on`, { buffered: true }, async (t) => {
    for (const by of [-90, 90]) {
      const service = await first.again()
      const { env, file } = clockOf(t, 0)
      const correct = `echo ${by} > ${file}; exit 3`
      t.match(await startWith(service, env, 'run', ...placeOf(service), '--', 'sh', '-c', correct).finished, {
        code: 3,
      })
      const { elapsed } = bodies(service).at(-1)
      t.ok(elapsed >= 0 && elapsed < 30_000, `${by}: ${elapsed} ms`)
    }
  })

  t.test(
    `${name}: a time of the CI system is compared with that of the service`,
    { buffered: true },
    async (t) => {
      const service = await first.again()
      const report = (began: string) =>
        reportWith(service, {}, ...placeOf(service), '--state', 'success', '--run', 'a', '--began', began)
      t.match(await report(secondsAgo(-100)), {
        code: 0,
        stderr: /--began is ([5-9]\d|100) s ahead of the time of the/,
      })
      t.equal(bodies(service)[0].elapsed, 0)
      t.equal(service.proxy.passages.length, 2, 'it asks once')
      const date = 'Sun, 31 Jan 2027 12:00:00 GMT'
      const error = '{"error":"x"}'
      service.proxy.plan({ status: 404, body: error, headers: { date, 'x-request-id': 'a' } })
      t.match(await report('2027-01-31T11:59:00Z'), { code: 0, stderr: '' }, 'whatever the answer is')
      const { elapsed } = bodies(service)[1]
      t.ok(elapsed >= 60_000 && elapsed < 80_000, `${elapsed}`)
      for (const headers of [
        { date },
        { date, 'x-request-id': 'a', age: '5' },
        { 'x-request-id': 'a', date: '' },
      ]) {
        const of: Record<string, string> = { ...headers }
        service.proxy.plan({ status: program ? 405 : 404, body: error, headers: of })
        t.match(await report('2027-01-31T11:59:00Z'), {
          code: 5,
          stderr: /success of default was not stored/,
        })
        t.equal(bodies(service).length, 2)
      }
    },
  )

  t.test(`${name}: the id of an annotated tag is that of its commit`, { buffered: true }, async (t) => {
    const service = await first.again()
    const cwd = temporary(t)
    git(cwd, 'clone', '--quiet', service.path, '.')
    const { sha } = service.commit
    git(cwd, '-c', 'user.name=a', '-c', 'user.email=a', 'tag', '--message=x', 'v1', sha)
    const of = placeOf(service).with(3, git(cwd, 'rev-parse', 'v1'))
    const args = ['report', ...of, '--state', 'success']
    const options = { env: environmentOf(service), cwd, ...(program && { program }) }
    t.match(await commandLine(t, args, options).finished, { code: 0, stdout: `acme/rocket ${sha} ` })
    t.strictSame(await service.stored(), ['default success'])
  })

  t.test(`${name}: a run that is run again has its attempt in its id`, { buffered: true }, async (t) => {
    const service = await first.again()
    const env = { GITHUB_RUN_ID: '5', GITHUB_RUN_ATTEMPT: '2' }
    for (const id of ['5', '5-2', 'other']) {
      const args = [...placeOf(service), '--state', 'success', '--run', id]
      t.match(await reportWith(service, env, ...args), { code: 0 })
    }
    const own = ['run', ...placeOf(service), '--run', '5', '--', 'true']
    t.match(await runWith(service, env, ...own), { code: 0 })
    const plain = [...placeOf(service), '--state', 'success', '--run', '5']
    t.match(await reportWith(service, { GITHUB_RUN_ID: '5' }, ...plain), { code: 0 })
    const ids = bodies(service).map(({ run }) => run)
    t.strictSame([...new Set(ids)], ['5-2', 'other', '5'])
  })

  t.test(
    `${name}: a question about the time that is answered late sends no pending`,
    { buffered: true },
    async (t) => {
      const service = await first.again()
      const { promise: heldUntil, resolve: release } = Promise.withResolvers<void>()
      service.proxy.plan({ heldUntil }, 'pass', { status: 503 })
      const began = ['--run', 'a', '--began', secondsAgo(60)]
      const { script, goOn } = waitingScript(t)
      const start_ = performance.now()
      const args = ['run', ...placeOf(service), ...began, '--', 'sh', '-c', `${script}; exit 6`]
      const running = runWith(service, {}, ...args)
      await service.proxy.reached(1)
      goOn()
      await service.proxy.reached(3)
      release()
      const { code, stderr } = await running
      t.equal(code, 6)
      expectQuiet(t, stderr, start_)
      t.strictSame(await service.stored(), ['default failure'])
      t.strictSame(bodies(service).at(-1).state, 'failure')
      if (!program)
        t.strictSame(
          bodies(service).map(({ state }) => state),
          ['failure', 'failure'],
        )
    },
  )

  t.test(`${name}: a signal while the service is away`, { buffered: true }, async (t) => {
    const service = await first.again()
    await service.proxy.close()
    const script = 'trap "echo down; exit 9" TERM; echo up; while :; do sleep .1; done'
    const timeOf = async (...later: number[]) => {
      const args = ['run', ...placeOf(service), '--', 'sh', '-c', script]
      const running = start(service, ...args)
      await running.printed('up')
      const start_ = performance.now()
      running.child.kill('SIGTERM')
      for (const milliseconds of later) {
        // Else a busy client may get both at once.
        if (milliseconds > 1_000) await running.printed('down')
        await new Promise((resolve) => setTimeout(resolve, milliseconds))
        running.child.kill('SIGTERM')
      }
      const { code, stderr } = await running.finished
      return { code, stderr, total: performance.now() - start_ }
    }
    const [once, twice, same] = await Promise.all([timeOf(), timeOf(1_500), timeOf(50)])
    t.match(once, { code: 9, stderr: /cancelled by SIGTERM.* was not stored: a signal ended the attempts/ })
    t.ok(once.total >= 4_500 && once.total < 25_000, `once: ${once.total} ms`)
    t.match(twice, { code: 9, stderr: /a signal ended the attempts/ })
    t.ok(twice.total < once.total - 1_000, `once: ${once.total} ms, twice: ${twice.total} ms`)
    // A busy machine may wake the client for the second one so late that it is another one.
    t.ok(same.total >= 500, `passed on twice: ${same.total} ms`)
    t.strictSame(await service.stored(), [], 'nobody else has the port of the closed proxy')
  })

  t.test(`${name}: a run that began later wins, and nothing else changes`, { buffered: true }, async (t) => {
    const service = await first.again()
    const run = (script: string, ...of: string[]) =>
      runWith(service, {}, 'run', ...placeOf(service), ...of, '--strict', '--', 'sh', '-c', script)
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
      reportWith(service, {}, ...placeOf(service), '--state', state, ...of)
    const [older, newer] = [secondsAgo(120), secondsAgo(60)]
    const id = 'ü'.repeat(65)
    t.match(await report('failure', '--run', id, '--began', newer), { code: 0, stderr: '' })
    t.match(await report('success', '--run', 'a', '--began', older), { code: 0, stdout: '', stderr: NEWER })
    t.match(await report('pending', '--run', id, '--began', newer), { code: 0, stderr: /came too late/ })
    t.strictSame(await service.stored(), ['default failure'])
    const [sent] = bodies(service)
    t.equal(
      sent.run,
      '093c56fb02c0d9587ac735226f1782d01df6c8f50f63ed494ec2e671a6bb0d00',
      'a long id is sent as its SHA-256',
    )
    t.ok(sent.elapsed >= 60_000 && sent.elapsed < 80_000)
  })

  t.test(`${name}: a pending that is held back delays nothing`, { buffered: true }, async (t) => {
    const service = await first.again()
    const { promise: heldUntil, resolve: release } = Promise.withResolvers<void>()
    service.proxy.plan({ heldUntil })
    const { script, goOn } = waitingScript(t)
    const args = ['run', ...placeOf(service), '--', 'sh', '-c', `${script}; exit 6`]
    const running = runWith(service, {}, ...args)
    await service.proxy.reached(1)
    goOn()
    const { code } = await running
    t.equal(code, 6)
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
    return call(args, environmentOf(service))
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
