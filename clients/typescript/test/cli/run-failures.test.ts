import t from 'tap'
import { call, commandLine } from '../helpers/command-line.ts'
import {
  environmentOf,
  expectQuiet,
  placeOf,
  runScript,
  runScriptHere,
  SLOW,
  sentStates,
} from '../helpers/run-script.ts'
import { startService } from '../helpers/service.ts'

const first = await startService(t, { commits: 10 })
t.jobs = 8

t.test('connection refused until the command ends', { buffered: true }, async (t) => {
  const service = await first.again()
  await service.proxy.close()
  const running = runScript(t, service, 'echo up; exec sleep 60')
  await running.printed('up')
  await service.proxy.open()
  await service.proxy.reached(1)
  t.strictSame(sentStates(service), ['pending'], 'it was tried again meanwhile')
  running.child.kill('SIGHUP')
  t.equal((await running.finished).code, 128 + 1)
  t.strictSame(await service.stored(), ['default error'])
})

t.test('connection refused for good', { buffered: true }, async (t) => {
  const service = await first.again()
  await service.proxy.close()
  const env = { PATH: process.env.PATH ?? '', ...environmentOf(service), COMMIT_STATUS_TIMEOUT: '1s' }
  const place = placeOf(service)
  const zero = ['true']
  const four = ['sh', '-c', 'exit 4']
  const runs = [
    [
      ['run', ...place, '--', ...zero],
      0,
      /warning: "success, passed in .* was not stored: (no answer|not sent: the time limit)/,
    ],
    [['run', ...place, '--', ...four], 4, /warning: "failure, exit code 4/],
    [['run', ...place, '--strict', '--', ...zero], 5, /error: "success/],
    [['run', ...place, '--strict', '--', ...four], 4, /error: "failure/],
    [['run', '--context', 'a', '--', ...zero], 0, /warning: .* missing repository/],
    [['run', '--context', 'a', '--strict', '--', ...zero], 2, /error: .* missing repository/],
  ] as const
  await Promise.all(
    runs.map(async ([args, code, stderr]) => {
      t.match(await call([...args], env), { code, stderr })
    }),
  )
  const deaf = await commandLine(t, ['run', '--context', 'a', '--', ...four]).finished
  t.match(deaf, { code: 4, stderr: /COMMIT_STATUS_URL/ })
})

const failures = {
  'reset after the request was sent': ['pass', 'reset'],
  '503 twice, then 201': ['pass', { status: 503 }, { status: 503 }],
  '429 with Retry-After': ['pass', { status: 429, headers: { 'retry-after': '1' } }],
  'a server that hangs': ['pass', 'hang'],
  'a server that hangs from the beginning': ['hang'],
} as const
for (const [name, plan] of Object.entries(failures)) {
  t.test(
    `${name}: the final result is stored once, the exit code is the own`,
    { buffered: true },
    async (t) => {
      const service = await first.again()
      service.proxy.plan(...plan)
      const began = performance.now()
      const { code, stderr } = await runScriptHere(t, service, 'exit 6').finished
      t.equal(code, 6)
      if (name === 'a server that hangs') t.equal(stderr, SLOW)
      else expectQuiet(t, stderr, began)
      t.strictSame(await service.stored(), ['default failure'])
      const accepted = sentStates(service, { stored: true })
      t.equal(accepted.filter((state) => state === 'failure').length, 1, 'and nothing is sent after that')
      t.equal(accepted.at(-1), 'failure')
    },
  )
}

t.test('a signal after the command has ended changes nothing', { buffered: true }, async (t) => {
  const service = await first.again()
  service.proxy.plan('pass', { status: 503, headers: { 'retry-after': '1' } })
  const began = performance.now()
  const running = runScriptHere(t, service, '')
  await service.proxy.reached(2)
  running.kill('SIGTERM')
  const { code, stderr } = await running.finished
  t.equal(code, 0)
  expectQuiet(t, stderr, began)
  t.strictSame(await service.stored(), ['default success'])
})

t.test('a refused token ends the reports, not the build', { buffered: true }, async (t) => {
  const service = await first.again()
  const { code, stderr } = await runScriptHere(t, { ...service, token: 'nonsense' }, '').finished
  t.match({ code, stderr }, { code: 0, stderr: /warning: "success, .* was not stored: not sent/ })
  t.equal(service.proxy.passages.length, 1)
})
