import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { createClient, unwrap } from '../../typescript/src/index.ts'
import { startService } from '../../typescript/test/helpers/service.ts'
import { checkout, runRecipe } from './jobs.ts'
import { read, systems } from './systems.ts'

const first = await startService(t, { commits: 4 * Object.keys(systems).length + 3 })
// Most of the time they wait.
t.jobs = 14
t.setTimeout(300_000)

const codes = ({ test, close }: Awaited<ReturnType<typeof runRecipe>>) => [test.code, close?.code]

for (const [name, { required, events, pipeline, began }] of Object.entries(systems)) {
  // Jenkins reports its build as a whole. Its jobs end as the build does, and its reports change no
  // exit code.
  const isWhole = name === 'Jenkinsfile'
  const [pull = '', push = '', ...others] = Object.keys(events)

  // Where what runs again is another pipeline, or has a time of its own, the attempts below show it.
  if (pipeline && began === 'pipeline')
    t.test(`${name}: an older pipeline of one commit ends last`, { buffered: true }, async (t) => {
      const service = await first.again()
      const cwd = checkout(t, service)
      const now = Math.floor(Date.now() / 1000)
      const [older, newer] = [120, 60].map((seconds) =>
        pipeline({ pipeline: 1_000 - seconds, began: now - seconds, attempt: 1, attemptBegan: now }),
      )
      const run = async (check: string, env: Record<string, string> = {}) => {
        const assumed = check === 'true' ? 'success' : 'failure'
        const options = { check, env, assumed, onlyClose: true } as const
        return (await runRecipe(cwd, service, name, pull, options)).close
      }

      t.match(await run('exit 1', newer), { stderr: '' })
      // What was refused makes no job of the older one fail.
      const stderr = `commit-status: a newer run reports ${required} now\n`
      t.match(await run('true', older), { code: 0, stderr })
      const closed = (await service.stored()).find((status) => status.startsWith(required))
      t.equal(closed, `${required} failure`, 'the older one passed')
    })

  t.test(`${name}: events, retries and a cancelled run of one commit`, { buffered: true }, async (t) => {
    const service = await first.again()
    const cwd = checkout(t, service)
    // A busy machine may need longer for the `pending` that is reported beside a quick command.
    const script = join(cwd, '.ci/commit-status')
    writeFileSync(script, readFileSync(script, 'utf8').replace('sleep 1; kill', 'sleep 20; kill'))
    const now = Math.floor(Date.now() / 1000)
    const run = (event: string, check: string) => runRecipe(cwd, service, name, event, { check })
    /** Runs an attempt of the pull request's pipeline, and returns what it reported for its rule. */
    const attempt = async (attempt: number, check: string, cancel = false) => {
      const times = { began: now - 240, attempt, attemptBegan: now - 240 + attempt * 60 }
      const env = { ...pipeline?.({ pipeline: 500, ...times }), COMMIT_STATUS_URL: service.proxy.url }
      const from = service.proxy.passages.length
      const jobs = await runRecipe(cwd, service, name, pull, { check, env, cancel })
      const reports = service.proxy.passages.slice(from).flatMap(({ body, status }) => {
        const { context, state, run } = body ? JSON.parse(body) : {}
        return context === required ? [{ state, run, status }] : []
      })
      return { ...jobs, reports }
    }
    const client = createClient({ baseUrl: service.server.url })
    const verdict = async (...require: string[]) =>
      unwrap(await client.getVerdict({ ...service.commit, require }))?.verdict
    t.ok(read(name).includes(required), 'the recipe names what rules require')

    const before = await attempt(1, 'exit 1')
    t.same(codes(before), [2, isWhole ? 0 : 1], 'a failed pull request')
    const failed = await service.stored()
    t.equal(failed.length, isWhole ? 1 : 2)
    t.same(codes(await run(push, 'true')), [0, 0], 'then a green push of the same commit')
    t.equal(await verdict(required), 'failure')
    t.equal(await verdict(required, '*'), 'failure')
    t.equal((await service.server.read('acme/rocket', service.commit.sha)).json.state, 'failure')
    for (const event of others) t.same(codes(await run(event, 'true')), [0, 0], event)
    const stored = await service.stored()
    t.equal(stored.length, Object.keys(events).length * failed.length, stored.join(', '))
    for (const status of failed) t.ok(stored.includes(status), `"${status}" is not replaced`)
    for (const status of stored) t.notMatch(status, 'refs/')

    const cancelled = await attempt(2, 'echo ready; exec sleep 30', true)
    t.not(cancelled.test.code, 0, 'a cancelled run')
    t.match(
      (await service.stored()).filter((status) => status.endsWith(' error')),
      [/^(?:ci|default|test)/],
    )
    t.not(await verdict(required), 'success')
    const again = await attempt(3, 'echo 412 tests passed')
    t.match(again, {
      test: { code: 0, stdout: /^(acme.*\n)?412 tests passed\n$/, stderr: '' },
      close: { code: 0 },
    })
    t.equal(await verdict(required), 'success', 'a retry')
    const retried = stored.map((status) => status.replace(' failure', ' success'))
    t.strictSame(await service.stored(), retried)
    if (!pipeline) return

    t.strictSame(
      again.reports.map(({ state, status }) => [state, status]),
      [
        ['pending', 201],
        ['success', 201],
      ],
      'what an earlier attempt reported does not stand while another one runs',
    )
    const ids = (...of: (typeof again)[]) =>
      new Set(of.flatMap(({ reports }) => reports.map(({ run }) => run))).size
    t.equal(ids(again), 1)
    t.equal(ids(before, again), 2)
    if (began !== 'attempt') return
    // What was refused makes no job of the older one fail.
    t.match(await attempt(1, 'true'), {
      close: { code: 0, stderr: `commit-status: a newer run reports ${required} now\n` },
      reports: [{ status: 409 }],
    })
    t.strictSame(await service.stored(), retried)
  })

  t.test(`${name}: exit codes while nothing can be reported`, { buffered: true }, async (t) => {
    const service = await first.again()
    const cwd = checkout(t, service)
    const run = (check: string, env: Record<string, string | undefined>, cwd: string) =>
      runRecipe(cwd, service, name, pull, { check, env, assumed: check === 'true' ? 'success' : 'failure' })
    const [red, green] = [
      [2, isWhole ? 0 : 1],
      [0, 0],
    ]
    const why =
      /was not (?:stored|reported): missing or malformed token|^commit-status: missing or malformed token/
    const forked = await run('exit 1', { COMMIT_STATUS_TOKEN: '' }, cwd)
    t.same(codes(forked), red, 'a failed pull request of a fork, whose secrets are empty')
    t.match([forked.test.stderr, forked.close?.stderr], [why, why])
    const missing = await run('true', { COMMIT_STATUS_TOKEN: undefined }, cwd)
    t.same(codes(missing), green, 'a missing token')
    t.match([missing.test.stderr, missing.close?.stderr], [why, why])
    // Each job asks again for half a minute. All recipes use one client, whose exit code only a build
    // that is reported as a whole takes otherwise.
    if (['github-actions.yml', 'Jenkinsfile'].includes(name)) {
      const away = { COMMIT_STATUS_URL: 'http://127.0.0.1:1' }
      const [failed, passed] = await Promise.all([
        run('exit 1', away, cwd),
        run('true', away, checkout(t, service)),
      ])
      t.same(codes(failed), red, 'the server away, failed')
      t.same(codes(passed), green, 'the server away, passed')
      t.match(failed.test.stderr, /was not stored/)
      t.match(passed.close?.stderr, /was not stored/)
    }
    t.strictSame(await service.stored(), [])
  })
}

t.test(
  'GitHub Actions: an attempt whose beginning is not known begins now',
  { buffered: true },
  async (t) => {
    const service = await first.again()
    const name = 'github-actions.yml'
    const options = { check: 'true', assumed: 'success', onlyClose: true, env: { STARTED_1: '' } } as const
    const { close } = await runRecipe(checkout(t, service), service, name, 'push to main', options)
    t.same(close, { code: 0, stdout: '', stderr: 'commit-status: --began is empty, so it was left out\n' })
    t.strictSame(await service.stored(), ['ci/all (push main) success'])
  },
)

t.test('no recipe downloads anything when it runs', (t) => {
  for (const name of Object.keys(systems)) {
    const code = read(name).replaceAll(/^ *(?:#|\/\/).*$/gm, '')
    t.notMatch(code, /\bcurl\b|\bnpx\b|\bnpm\b|\/assets\/|vars\./, name)
    t.match(code, /COMMIT_STATUS_URL\b.{1,12}https:\/\/status\.example\.org/, name)
  }
  t.notMatch(read('deploy-gate').replaceAll(/^#.*$/gm, ''), /\bcurl\b|\bnpx\b|\bnpm\b/)
  t.end()
})

t.test('a Tekton parameter is no shell text', { buffered: true }, async (t) => {
  const service = await first.again()
  const name = 'tekton-task.yaml'
  const hostile = '$(echo injected >&2)"; echo injected >&2; "'
  const { test } = await runRecipe(checkout(t, service), service, name, 'a pipeline', {
    check: 'true',
    env: { CONTEXT: hostile },
  })
  t.notMatch(test.stderr, /injected/)
  t.strictSame(await service.stored(), [`${hostile} success`])
  const [{ env: variables, script }] = parse(read(name)).spec.steps
  t.notMatch(script, '$(')
  const values = variables.map(({ value = '' }) => value).filter((value: string) => value.startsWith('$('))
  t.strictSame(values, ['$(params.repository)', '$(params.sha)', '$(params.context)', '$(params.command)'])
  t.match(variables.at(-1), { valueFrom: { secretKeyRef: { optional: true } } })
})

t.test('the events that each recipe names, and when its closing job runs', (t) => {
  const github = parse(read('github-actions.yml'))
  t.strictSame(github.on, { push: { branches: ['main'] }, pull_request: null, merge_group: null })
  const { ci, ...jobs } = github.jobs
  t.match(ci, { if: 'always()', needs: Object.keys(jobs) })
  const gitlab = parse(read('gitlab-ci.yml'))
  t.match([gitlab.ci, gitlab['ci failed']], [{ stage: '.post' }, { stage: '.post', when: 'on_failure' }])
  t.strictSame(gitlab.ci.script, gitlab['ci failed'].script)
  t.equal(gitlab.workflow.rules[0].if, '$CI_PIPELINE_SOURCE == "merge_request_event"')
  const drone = parse(read('drone.yml'))
  t.strictSame(drone.trigger, { branch: ['main'], event: ['push', 'pull_request'] })
  t.strictSame(drone.steps.at(-1).when, { status: ['success', 'failure'] })
  const woodpecker = parse(read('woodpecker.yml'))
  t.strictSame(woodpecker.when, [{ event: 'push', branch: 'main' }, { event: 'pull_request' }])
  t.match(woodpecker.steps.slice(-2), [{ name: 'ci' }, { name: 'ci failed', when: { status: ['failure'] } }])
  t.strictSame(woodpecker.steps.at(-1).commands, woodpecker.steps.at(-2).commands)
  const [test, closing] = parse(read('buildkite.yml')).steps
  t.match(closing, { depends_on: [test.key], allow_dependency_failure: true })
  t.match(read('Jenkinsfile'), /success \{ report\('success'\) \}\n +unsuccessful \{ report\(/)
  t.end()
})
