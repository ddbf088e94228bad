import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { commandLine } from '../../typescript/test/helpers/command-line.ts'
import { sentStates } from '../../typescript/test/helpers/run-script.ts'
import { startService } from '../../typescript/test/helpers/service.ts'
import { script, shells } from './shells.ts'

const FOREVER = 'echo up; while :; do sleep 0.05; done'
// Four for each shell, and the service's own.
const first = await startService(t, { commits: 4 * shells.length + 1 })
t.jobs = 4

for (const { name, program, run } of shells) {
  t.test(
    `${name}: signals that arrive while the command ends leave its exit code`,
    { buffered: true },
    async (t) => {
      const command = `trap 'trap "" TERM; exit 9' TERM; ${FOREVER}`
      const codes = await Promise.all(
        Array.from({ length: 12 }, async (_, index) => {
          const args = ['run', '--context', 'a', '--', 'sh', '-c', command]
          const running = commandLine(t, args, { program, detached: true })
          await running.printed('up')
          const { pid = 0 } = running.child
          process.kill(-pid, 'SIGTERM')
          await setTimeout(index)
          running.child.kill('SIGTERM')
          return (await running.finished).code
        }),
      )
      // bash loses the exit code of a child that ends while a signal interrupts "wait".
      const allowed = name.startsWith('bash') ? [9, 143] : [9]
      t.strictSame(
        codes.filter((code) => !allowed.includes(code ?? -1)),
        [],
      )
    },
  )

  t.test(
    `${name}: a signal before the script knows its command stops the command`,
    { buffered: true },
    async (t) => {
      const text = readFileSync(script, 'utf8')
      const interrupted = text.replace('sleep 0; child=$!', (line) => `kill -TERM $$; ${line}`)
      t.not(interrupted, text)
      const folder = mkdtempSync(join(tmpdir(), 'interrupted-'))
      t.teardown(() => rmSync(folder, { recursive: true }))
      const copy = join(folder, 'commit-status')
      writeFileSync(copy, interrupted)
      const command = `trap 'exit 9' TERM; for i in $(seq 60); do sleep 0.05; done`
      const codes = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const args = ['run', '--context', 'a', '--', 'sh', '-c', command]
          return (await commandLine(t, args, { program: program.with(-1, copy) }).finished).code
        }),
      )
      // The signal may arrive before the command has a trap.
      t.strictSame(
        codes.filter((code) => code !== 9 && code !== 143),
        [],
      )
    },
  )

  t.test(`${name}: a signal after the command ended changes nothing`, { buffered: true }, async (t) => {
    const service = await first.again()
    service.proxy.plan('pass', { status: 503, headers: { 'retry-after': '1' } })
    const running = run(t, service, 'exit 0')
    await service.proxy.reached(2)
    running.child.kill('SIGTERM')
    t.match(await running.finished, { code: 0, stderr: '' })
    t.strictSame(await service.stored(), ['default success'])
    t.strictSame(sentStates(service), ['pending', 'success', 'success'])
  })

  t.test(`${name}: signals are passed on and never leave pending`, { buffered: true }, async (t) => {
    for (const [signal, number] of [
      ['SIGINT', 2],
      ['SIGTERM', 15],
      ['SIGHUP', 1],
    ] as const) {
      const service = await first.again()
      const obedient = run(t, service, FOREVER, '--context', 'a')
      const tidy = run(t, service, `trap 'exit 0' TERM HUP; ${FOREVER}`, '--context', 'b')
      const failing = run(t, service, `trap 'exit 9' TERM HUP; ${FOREVER}`, '--context', 'c')
      const all = [obedient, tidy, failing]
      await Promise.all(all.map((running) => running.printed('up')))
      const processes = readFileSync(`/proc/${obedient.child.pid}/cmdline`, 'utf8')
      t.notMatch(processes, service.token)
      for (const { child } of all) child.kill(signal)
      const codes = await Promise.all(all.map(async ({ finished }) => (await finished).code))
      const passed = signal === 'SIGINT' ? 15 : number
      t.strictSame(codes, [128 + passed, 0, 9], `${signal}: the exit code of the command`)
      t.strictSame(await service.stored(), ['a error', 'b error', 'c error'])
      t.match(JSON.parse(service.proxy.passages.at(-1)?.body ?? ''), {
        description: `cancelled by ${signal}`,
      })
    }
  })
}
