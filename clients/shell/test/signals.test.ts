import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../../../test/helpers/databases.ts'
import { commandLine } from '../../typescript/test/helpers/command-line.ts'
import { placeOf, sentStates, waitingScript } from '../../typescript/test/helpers/run-script.ts'
import { type Service, startService } from '../../typescript/test/helpers/service.ts'
import { script, shells } from './shells.ts'

const FOREVER = 'echo up; while :; do sleep 0.05; done'

/** Writes a copy of the script in which one text is another one, and returns its path. */
function copyWith(t: Test, text: string, replace: (text: string) => string): string {
  const before = readFileSync(script, 'utf8')
  const after = before.replace(text, replace)
  t.not(after, before)
  const copy = join(temporaryFolder(t), 'commit-status')
  writeFileSync(copy, after)
  return copy
}

/** Descriptions that are stored for the service's commit. */
async function descriptionsOf({ server, commit }: Service): Promise<(string | null)[]> {
  const { json } = await server.read('acme/rocket', commit.sha)
  return (json.statuses ?? []).map(({ description }) => description)
}

// Five for each shell, and the service's own.
const first = await startService(t, { commits: 5 * shells.length + 1 })
t.jobs = 4

for (const { name, program, run, start } of shells) {
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
    `${name}: one signal does not count as two, however slow the clock is`,
    { buffered: true },
    async (t) => {
      const service = await first.again()
      const slow = program.with(
        -1,
        copyWith(t, 'now() {', (line) => `${line}\n  [ -z "$trapped" ] || sleep 0.6`),
      )
      const args = ['run', ...placeOf(service), '--', 'sh', '-c', `trap 'exit 9' TERM; ${FOREVER}`]
      const running = start(t, service, args, { program: slow })
      await running.printed('up')
      running.child.kill('SIGTERM')
      t.match(await running.finished, { code: 9, stderr: '' })
      t.match(await descriptionsOf(service), [/^cancelled by SIGTERM after/])
    },
  )

  t.test(
    `${name}: a signal before the script knows its command stops the command`,
    { buffered: true },
    async (t) => {
      const copy = copyWith(t, 'sleep 0; child=$!', (line) => `kill -TERM $$; ${line}`)
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
    const { script, goOn } = waitingScript(t)
    const running = run(t, service, script)
    // A second after its command the client gives up a "pending" that is not sent.
    await service.proxy.answered(1)
    goOn()
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
      t.match(await descriptionsOf(service), Array(3).fill(`cancelled by ${signal}`))
    }
  })
}
