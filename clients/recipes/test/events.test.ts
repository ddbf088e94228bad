import { resolve } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startService } from '../../typescript/test/helpers/service.ts'
import { checkout, jobEnvironment, read, runSteps, systems } from './systems.ts'

const cli = resolve(import.meta.dirname, '../../typescript/src/cli/main.ts')
const first = await startService(t, { commits: Object.keys(systems).length + 3 })
/** Cancels its own job, as a system does when a newer run supersedes it. */
const SUPERSEDED = 'kill -TERM $PPID; exec sleep 30'
t.jobs = 3
t.setTimeout(300_000)

for (const [name, { steps, events }] of Object.entries(systems)) {
  t.test(`${name}: no two events of a commit share a context`, { buffered: true }, async (t) => {
    const service = await first.again()
    const cwd = checkout(t, service)
    // npx takes longer than all else: the last job runs it.
    const scripts = steps().map((step) =>
      step.replace(/npx .* -- commit-status/, `${process.execPath} ${cli}`),
    )
    const job = async (event: string, command: string) => {
      const env = {
        ...jobEnvironment(name, event, service),
        ...(name.startsWith('tekton') && { COMMAND: command }),
      }
      return runSteps(
        cwd,
        service,
        scripts.map((step) => step.replace('make test', command)),
        env,
      )
    }
    const [failing = '', ...others] = Object.keys(events)
    await t.rejects(job(failing, 'false'))
    const [failed = ''] = await service.stored()
    t.match(failed, /^(?:ci|default)?\/?test.* failure$/)
    for (const event of others) await job(event, 'true')
    const stored = await service.stored()
    t.ok(stored.includes(failed), `"${failed}" is not replaced`)
    t.equal(stored.length, Object.keys(events).length, stored.join(', '))
    await t.rejects(job(failing, name.startsWith('tekton') ? SUPERSEDED : `sh -c '${SUPERSEDED}'`))
    const superseded = (await service.stored()).filter((status) => !status.endsWith(' success'))
    t.strictSame(superseded, [failed.replace(' failure', ' error')], 'a superseded run')
    const printed = await runSteps(cwd, service, steps(), jobEnvironment(name, failing, service))
    t.match(printed, /412 tests passed\n$/)
    t.strictSame(
      await service.stored(),
      stored.map((status) => status.replace(' failure', ' success')),
      'the run that supersedes it, with the lines as they are',
    )
  })
}

t.test('a job of a fork has no token: it runs without reports', { buffered: true }, async (t) => {
  const service = await first.again()
  const name = 'github-actions.yml'
  const env = { ...jobEnvironment(name, 'pull request into main', service), COMMIT_STATUS_TOKEN: '' }
  t.match(
    await runSteps(checkout(t, service), service, systems[name]?.steps() ?? [], env),
    /missing or malformed token[\s\S]*412 tests passed\n$/,
  )
  t.strictSame(await service.stored(), [])
})

t.test('a Tekton parameter is no shell text', { buffered: true }, async (t) => {
  const service = await first.again()
  const name = 'tekton-task.yaml'
  const hostile = '$(echo injected >&2)"; echo injected >&2; "'
  const env = { ...jobEnvironment(name, 'a pipeline', service), CONTEXT: hostile }
  t.notMatch(await runSteps(checkout(t, service), service, systems[name]?.steps() ?? [], env), /injected/)
  t.strictSame(await service.stored(), [`${hostile} success`])
  const [{ env: variables, script }] = parse(read(name)).spec.steps
  t.notMatch(script, '$(')
  const values = variables.map(({ value = '' }) => value).filter((value: string) => value.startsWith('$('))
  t.strictSame(values, ['$(params.repository)', '$(params.sha)', '$(params.context)', '$(params.command)'])
})

t.test('the events that each recipe names', (t) => {
  t.strictSame(parse(read('github-actions.yml')).on, {
    push: { branches: ['main'] },
    pull_request: null,
    merge_group: null,
  })
  t.strictSame(parse(read('drone.yml')).trigger, { branch: ['main'], event: ['push', 'pull_request'] })
  t.strictSame(parse(read('woodpecker.yml')).when, [
    { event: 'push', branch: 'main' },
    { event: 'pull_request' },
  ])
  t.strictSame(parse(read('buildkite.yml')).steps[0].secrets, ['COMMIT_STATUS_TOKEN'])
  t.end()
})
