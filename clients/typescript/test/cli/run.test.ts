import { readFileSync } from 'node:fs'
import t from 'tap'
import { call } from '../helpers/command-line.ts'
import {
  environmentOf,
  expectQuiet,
  placeOf,
  runScript,
  runScriptHere,
  sentStates,
} from '../helpers/run-script.ts'
import { startService } from '../helpers/service.ts'

const FOREVER = 'echo up; while :; do sleep 0.1; done'
const first = await startService(t, { commits: 9 })
t.jobs = 3

t.test(
  'the command keeps its output and its exit code; its result is stored',
  { buffered: true },
  async (t) => {
    const service = await first.again()
    const script = 'printf "out\\0put"; printf err >&2; exit 7'
    const began = performance.now()
    const { stderr, ...failed } = await runScript(t, service, script, '--context', 'ci/test').finished
    t.strictSame(failed, { code: 7, stdout: 'out\0put' })
    t.match(stderr, 'err')
    expectQuiet(t, stderr.replace('err', ''), began)
    t.strictSame(await service.stored(), ['ci/test failure'])
    t.strictSame(sentStates(service), ['pending', 'failure'])
    t.match(JSON.parse(service.proxy.passages[1]?.body ?? ''), {
      description: /^exit code 7 after \d\.\d s$/,
    })

    t.equal((await runScriptHere(t, service, '', '--context', 'ci/test').finished).code, 0)
    t.strictSame(await service.stored(), ['ci/test success'])
    t.match(JSON.parse(service.proxy.passages[3]?.body ?? ''), { description: /^passed in \d\.\d s$/ })
  },
)

t.test('killed by a signal, or not startable', { buffered: true }, async (t) => {
  const service = await first.again()
  const env = { PATH: process.env.PATH ?? '', ...environmentOf(service) }
  const [killed, missing, nothing] = await Promise.all([
    runScript(t, service, 'kill -KILL $$').finished,
    call(['run', ...placeOf(service), '--context', 'none', '--', '/nonexistent/command'], env),
    call(['run', ...placeOf(service)], env),
  ])
  const folder = ['run', ...placeOf(service), '--context', 'folder', '--', '/tmp']
  t.match(await call(folder, env), { code: 126, stderr: /could not be started: not executable \(EACCES\)/ })
  t.equal(killed.code, 128 + 9)
  t.match(missing, {
    code: 127,
    stderr: /\/nonexistent\/command could not be started: no such command or file \(ENOENT\)/,
  })
  t.match(nothing, { code: 2, stderr: /missing command/ })
  t.strictSame(await service.stored(), ['default error', 'folder error', 'none error'])
})

for (const [signal, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const) {
  t.test(`${signal} is passed on and never leaves pending`, { buffered: true }, async (t) => {
    const service = await first.again()

    const obedient = runScript(t, service, 'echo up; exec sleep 60', '--context', 'a')
    const tidy = runScript(t, service, `trap 'exit 0' ${signal.slice(3)}; ${FOREVER}`, '--context', 'b')
    const failing = runScript(t, service, `trap 'exit 9' ${signal.slice(3)}; ${FOREVER}`, '--context', 'c')
    const all = [obedient, tidy, failing]
    await Promise.all(all.map((running) => running.printed('up')))
    for (const { child } of all) child.kill(signal)
    const codes = await Promise.all(all.map(async ({ finished }) => (await finished).code))
    t.strictSame(codes, [128 + number, 0, 9], "the command's own")
    t.strictSame(await service.stored(), ['a error', 'b error', 'c error'])
  })
}

t.test(
  'a command that ignores the signal is reported as cancelled before it ends',
  { buffered: true },
  async (t) => {
    const service = await first.again()
    const stubborn = runScript(t, service, `trap 'echo no' TERM; ${FOREVER}`)
    await stubborn.printed('up')
    t.notMatch(readFileSync(`/proc/${stubborn.child.pid}/cmdline`, 'utf8'), service.token)
    stubborn.child.kill('SIGTERM')
    await service.proxy.answered(2)
    t.strictSame(await service.stored(), ['default error'])
    await stubborn.printed('no')
    stubborn.child.kill('SIGQUIT')
    t.equal((await stubborn.finished).code, 128 + 3)
    t.strictSame(await service.stored(), ['default error'])
  },
)

t.test('the command gets the token only with --pass-token', { buffered: true }, async (t) => {
  const service = await first.again()
  const script = 'echo "<$COMMIT_STATUS_TOKEN> $COMMIT_STATUS_URL"'
  const [without, passed] = await Promise.all([
    runScript(t, service, script, '--context', 'a').finished,
    runScript(t, service, script, '--context', 'b', '--pass-token').finished,
  ])
  t.match(without, { code: 0, stdout: `<> ${service.proxy.url}\n` })
  t.match(passed, { code: 0, stdout: `<${service.token}> ${service.proxy.url}\n` })
  t.strictSame(await service.stored(), ['a success', 'b success'])
})

t.test('without a context nothing is run', { buffered: true }, async (t) => {
  const args = ['run', '--repo', 'acme/rocket', '--sha', first.commit.sha, '--', 'echo', 'run']
  const { code, stdout, stderr } = await call(args, environmentOf(first))
  t.match({ code, stdout, stderr }, { code: 2, stdout: '', stderr: /missing context: give --context NAME/ })
})
