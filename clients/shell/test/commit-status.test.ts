import { mkdtempSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { schemas } from '../../../generated/schemas.ts'
import { git } from '../../../test/helpers/git.ts'
import { commandLine } from '../../typescript/test/helpers/command-line.ts'
import { contexts, foreignEvents } from '../../typescript/test/helpers/contexts.ts'
import { placeOf, sentStates } from '../../typescript/test/helpers/run-script.ts'
import { startService } from '../../typescript/test/helpers/service.ts'
import { script, shells } from './shells.ts'

const first = await startService(t, { commits: 4 * shells.length + 12 })
t.jobs = 4

t.test('it stays small', (t) => {
  t.ok(statSync(script).size < 15_360, `${statSync(script).size} bytes`)
  t.ok(readFileSync(script, 'utf8').split('\n').length <= 310)
  t.end()
})

t.test('it accepts the states of the contract', (t) => {
  const accepted = /^case \$state in\n +([a-z_ |]+)\) ;;/m.exec(readFileSync(script, 'utf8'))?.[1]
  t.same(accepted?.split(' | '), schemas.State.enum)
  t.end()
})

t.test('the server hands it out', async (t) => {
  const answer = await fetch(`${first.server.url}/assets/commit-status.sh`)
  t.equal(answer.headers.get('content-type'), 'text/x-shellscript; charset=utf-8')
  t.equal(await answer.text(), readFileSync(script, 'utf8'))
})

t.test('it stops retrying when the README says', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'shell-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  /** A clock that only sleeping moves, and a server that is away once it has told its time. */
  const programs = {
    sleep: 'IFS=. read -r up _ < "$CLOCK"; echo "$((up + $1)).00 1" > "$CLOCK"',
    curl: `case "$*" in
*-I*) printf 'HTTP/1.1 405\\r\\ndate: Sun, 09 Sep 2001 01:46:40 GMT\\r\\nx-request-id: a\\r\\n\\r\\n 405' ;;
*) echo "$@" >> "$CLOCK.log"; printf 'HTTP/1.1 503\\r\\n\\r\\nno 503' ;;
esac`,
  }
  for (const [name, text] of Object.entries(programs))
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  const clock = join(folder, 'clock')
  writeFileSync(clock, '1000.00 1\n')
  const copy = join(folder, 'commit-status')
  writeFileSync(copy, readFileSync(script, 'utf8').replace('/proc/uptime', clock))
  const env = { PATH: `${folder}:${process.env.PATH}`, CLOCK: clock }
  const run = ['--run', 'pipeline', '--began', '2001-09-09T01:46:30Z']
  const args = ['report', ...placeOf(first), '--state', 'error', ...run]
  t.match(await shells[0]?.start(t, first, args, { env, program: ['sh', copy] }).finished, {
    code: 5,
    stderr: /not stored: .*no 503/,
  })
  const readme = readFileSync('clients/typescript/README.md', 'utf8')
  const [, limit] = /stops\s+retrying\s+after\s+(\d+)\s+seconds/.exec(readme) ?? []
  const passed = Number.parseFloat(readFileSync(clock, 'utf8')) - 1_000
  t.ok(passed <= Number(limit) && passed + 8 >= Number(limit), `${passed} of ${limit} seconds`)
  const sent = readFileSync(`${clock}.log`, 'utf8').match(/(?<="elapsed":)\d+/g)
  t.strictSame(sent?.slice(0, 4), ['10000', '11000', '13000', '17000'], 'measured at each attempt')
})

// What shells are known to do in different ways.
for (const { name, program, start, run } of shells) {
  t.test(`${name}: report`, { buffered: true }, async (t) => {
    const service = await first.again()
    const description = 'say "hi"\\n, naïve 🚀\nand\ttab'
    const link = ['--target-url', 'https://ci.example.org/5?a=1&b=2']
    const report = [
      'report',
      ...placeOf(service),
      '--context',
      'ci/"x"',
      '--description',
      description,
      ...link,
    ]
    const stored = await start(t, service, [...report, '--state', 'success']).finished
    t.match(stored, { code: 0, stdout: `acme/rocket ${service.commit.sha} ci/"x" success\n`, stderr: '' })
    const { json } = await service.server.read('acme/rocket', service.commit.sha)
    t.match(json.statuses, [
      {
        context: 'ci/"x"',
        description: 'say "hi"\\n, naïve 🚀 and tab',
        target_url: link[1],
        state: 'success',
      },
    ])
  })

  t.test(`${name}: run keeps output, input and exit code`, { buffered: true }, async (t) => {
    const service = await first.again()
    const folder = mkdtempSync(join(tmpdir(), 'run-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const sent = join(folder, 'sent')
    const work = `cat; echo error >&2; until [ -e ${sent} ]; do sleep .1; done; exit 7`
    const command = ['run', ...placeOf(service), '--', 'sh', '-c', work]
    const running = start(t, service, command, { input: 'from stdin' })
    // A second after the command has ended, `pending` is given up.
    await service.proxy.answered(1)
    writeFileSync(sent, '')
    const failed = await running.finished
    t.strictSame(failed, { code: 7, stdout: 'from stdin', stderr: 'error\n' })
    t.strictSame(sentStates(service), ['pending', 'failure'])
    t.equal((await run(t, service, 'exit 0').finished).code, 0)
    t.strictSame(await service.stored(), ['default success'])
    t.match(JSON.parse(service.proxy.passages.at(-1)?.body ?? ''), { description: /^passed in \d+ s$/ })
    t.equal((await run(t, service, 'kill -9 $$').finished).code, 137)
    t.strictSame(await service.stored(), ['default error'])
    const missing = await start(t, service, ['run', ...placeOf(service), '--', '/nonexistent/command'])
      .finished
    t.equal(missing.code, 127)
    t.equal((await start(t, service, ['run', ...placeOf(service), '--', '/tmp']).finished).code, 126)
    const unstarted = { state: 'error', description: 'could not be started' }
    const results = service.proxy.passages.filter(({ body }) => !body.includes('pending'))
    t.match(JSON.parse(results.at(-1)?.body ?? ''), unstarted)
    const ownFunction = await start(t, service, ['run', ...placeOf(service), '--', 'say', 'hi']).finished
    t.equal(ownFunction.code, 127, 'a function of the script is not a command')
  })

  t.test(
    `${name}: the command gets the environment unchanged, and runs with stdin closed`,
    { buffered: true },
    async (t) => {
      const service = await first.again()
      const env = { target: 'prod', sha: `"it's"`, environment: 'a\nb', token: '$x' }
      const echo = 'echo "$target $sha $environment $token"; exit 3'
      const args = [
        '-c',
        'exec "$@" <&-',
        'sh',
        ...program,
        'run',
        ...placeOf(service),
        '--',
        'sh',
        '-c',
        echo,
      ]
      const ran = await start(t, service, args, { program: ['sh'], env }).finished
      t.match(ran, { code: 3, stdout: `prod "it's" a\nb $x\n`, stderr: '' })
      t.strictSame(await service.stored(), ['default failure'])
    },
  )

  t.test(`${name}: the command gets the token only with --pass-token`, { buffered: true }, async (t) => {
    const service = await first.again()
    const print = 'echo "<$COMMIT_STATUS_TOKEN>$COMMIT_STATUS_URL"'
    t.match(await run(t, service, print).finished, { code: 0, stdout: `<>${service.proxy.url}\n` })
    t.match(await run(t, service, print, '--pass-token').finished, {
      code: 0,
      stdout: `<${service.token}>${service.proxy.url}\n`,
    })
  })
}

// What follows does not depend on the shell, so one is enough.
for (const { name, program, start, run } of shells.slice(0, 1)) {
  t.test(`${name}: wrong usage, and refusals`, { buffered: true }, async (t) => {
    const service = await first.again()
    const wrong: [string[], number, RegExp][] = [
      [[], 2, /expected report or run/],
      [['report', '--state', 'done', ...placeOf(service)], 2, /--state must be/],
      [
        ['report', '--state', 'success', '--context', 'a', '--sha', service.commit.sha],
        2,
        /is not OWNER\/NAME/,
      ],
      [
        ['report', '--state', 'success', ...placeOf(service), '--wait-for-commit', 'soon'],
        2,
        /needs a duration/,
      ],
      [['report', '--state', 'success', ...placeOf(service), '--repo', 'a/b/c'], 2, /is not OWNER\/NAME/],
      [
        ['report', ...placeOf(service), '--sha', '', '--state', 'success', '--began', ''],
        2,
        /missing commit/,
      ],
      [['report', ...placeOf(service), '--state', 'success', '--began', '5'], 2, /--began needs --run/],
      [['report', ...placeOf(service), '--sha', '{a,b}', '--state', 'success'], 2, /missing commit/],
      [
        ['report', ...placeOf(service), '--url', service.proxy.url.slice(7), '--state', 'success'],
        2,
        /missing URL/,
      ],
      [['report', '--frob', 'x'], 2, /unexpected --frob/],
      [['report', '--state'], 2, /--state needs a value/],
      [['report', '--context', 'a', '--state', 'good'], 2, /--state must be .*; got 'good'/],
      [['run', 'ci/test'], 2, /unexpected ci\/test \(see --help\)/],
      [['run', ...placeOf(service)], 2, /missing command/],
      [['report', ...placeOf(service), '--state', 'success', '--context', ''], 2, /missing context/],
      [
        ['report', ...placeOf(service), '--state', 'success', '--context', 'x'.repeat(256)],
        2,
        /context.* 422/,
      ],
      [['report', ...placeOf(service), '--repo', 'acme/none', '--state', 'success'], 5, /404/],
    ]
    for (const [args, code, stderr] of wrong) {
      t.match(await start(t, service, args).finished, { code, stderr }, args.join(' '))
    }
    for (const args of [['--help'], ['run', '--help'], ['report', '-h']])
      t.match(await start(t, service, args).finished, { code: 0, stdout: /^Reports the result/, stderr: '' })
  })

  t.test(`${name}: a hostile answer is printed on one line`, { buffered: true }, async (t) => {
    const service = await first.again()
    const report = ['report', ...placeOf(service), '--state', 'success']
    service.proxy.plan(
      { status: 403, body: '\u001b[31mno\u0007' },
      { status: 403, body: 'x'.repeat(1_000_000) },
    )
    t.strictSame(await start(t, service, report).finished, {
      code: 5,
      stdout: '',
      stderr: 'commit-status: success of default was not stored:  [31mno 403\n',
    })
    const large = await start(t, service, report).finished
    t.match(large, { code: 5, stderr: /x 403\n$/ })
    t.ok(large.stderr.length < 1_000)
  })

  t.test(`${name}: no answer begins a command to the CI system`, { buffered: true }, async (t) => {
    const service = await first.again()
    const message =
      'x\\n::set-output name=a::b\\r\\n##vso[task.complete]###[error]\n::error::y\r\n##vso[task.complete]'
    // On a busy machine the pending of `run` is not waited for, and the result is answered too.
    const text = { status: 403, body: message }
    service.proxy.plan({ status: 403, body: `{"error":"${message}"}` }, text, text)
    for (const args of [
      ['report', ...placeOf(service), '--state', 'success'],
      ['run', ...placeOf(service), '--', 'true'],
    ]) {
      const { stdout, stderr } = await start(t, service, args).finished
      t.equal(stdout, '')
      t.match(stderr, /^commit-status: .* was not stored: .* 403\n$/)
      t.notMatch(stderr, '##')
    }
  })

  t.test(`${name}: a context from the job, or none`, { buffered: true }, async (t) => {
    const service = await first.again()
    const place = ['report', '--state', 'success', ...placeOf(service).slice(0, 4)]
    await Promise.all(
      contexts.map(async ([env, context]) => {
        const stdout = context === undefined ? '' : `acme/rocket ${service.commit.sha} ${context} success\n`
        const stderr = context === undefined ? /missing context: give --context NAME/ : ''
        t.match(await start(t, service, place, { env }).finished, { code: context ? 0 : 2, stdout, stderr })
      }),
    )
    const nothing = ['run', ...placeOf(service).slice(0, 4), '--', 'echo', 'run']
    t.match(await start(t, service, nothing).finished, { code: 2, stdout: '', stderr: /missing context/ })
  })

  t.test(`${name}: failures`, { buffered: true }, async (t) => {
    const failures = {
      'reset after the request was sent': ['pass', 'reset'],
      '503 twice, then 201': ['pass', { status: 503 }, { status: 503 }],
      '429 with Retry-After': ['pass', { status: 429, headers: { 'retry-after': '1' } }],
      'a server that hangs from the beginning': ['hang'],
    } as const
    await Promise.all(
      Object.entries(failures).map(async ([name, plan]) => {
        const service = await first.again()
        service.proxy.plan(...plan)
        const { code, stderr } = await run(t, service, 'exit 6').finished
        t.strictSame({ code, stderr }, { code: 6, stderr: '' }, name)
        t.strictSame(await service.stored(), ['default failure'], name)
        t.equal(sentStates(service, { stored: true }).at(-1), 'failure', name)
      }),
    )
    const service = await first.again()
    const refused = await run(t, { ...service, token: 'nonsense' }, 'exit 0').finished
    t.match(refused, { code: 0, stderr: /warning: "success, .* was not stored: .* 401/ })
    t.equal(service.proxy.passages.length, 1, 'a refused token is not sent again')
    const strict = await run(t, { ...service, token: 'nonsense' }, 'exit 0', '--strict').finished
    t.match(strict, { code: 5, stderr: /error: "success/ })
    for (const options of [
      ['--context', 'x'.repeat(256)],
      ['--repo', 'a/b/c'],
      ['--url', ''],
    ]) {
      const invalid = await run(t, service, 'exit 0', '--strict', ...options).finished
      t.match(invalid, { code: 2, stderr: /error: "success/ }, 'a missing or invalid value, as of "report"')
    }
    const gateway = await first.again()
    gateway.proxy.plan({ status: 200 }, { status: 200 })
    const misled = await run(t, gateway, 'exit 0').finished
    t.match(misled, { code: 0, stderr: /warning: "success, .* was not stored: .* 200/ }, 'a page')
    const lost = commandLine(t, ['run', '--context', 'a', '--', 'sh', '-c', 'exit 4'], { program })
    t.match(await lost.finished, { code: 4, stderr: /missing URL/ })
    t.notMatch(`${refused.stderr}${strict.stderr}`, service.token)
  })

  t.test(`${name}: repository and commit from CI systems and the checkout`, { buffered: true }, async (t) => {
    const service = await first.again()
    const { sha } = service.commit
    const systems: Record<string, Record<string, string>> = {
      github: { GITHUB_REPOSITORY: 'acme/rocket', GITHUB_SHA: sha },
      gitlab: {
        CI_PROJECT_PATH: 'acme/rocket',
        CI_COMMIT_SHA: sha,
        CI_JOB_URL: 'https://ci.example.org/1',
      },
      subgroup: { COMMIT_STATUS_REPO: 'acme/rocket', CI_PROJECT_PATH: 'acme/x/rocket', CI_COMMIT_SHA: sha },
      jenkins: {
        GIT_URL: 'git@host:acme/rocket.git',
        GIT_COMMIT: sha,
        BUILD_URL: 'https://ci.example.org/1',
      },
      woodpecker: { CI_REPO: 'acme/rocket', CI_COMMIT_SHA: sha },
      drone: { DRONE_REPO: 'acme/rocket', DRONE_COMMIT_SHA: sha },
      buildkite: { BUILDKITE_REPO: 'ssh://git@host/acme/rocket', BUILDKITE_COMMIT: sha },
      azure: {
        BUILD_REPOSITORY_URI: 'https://x@dev.azure.com/x/acme/_git/rocket',
        BUILD_SOURCEVERSION: sha,
      },
    }
    for (const [name, env] of Object.entries(systems)) {
      const args = ['report', '--state', 'success', '--context', name]
      t.match(await start(t, service, args, { env }).finished, { code: 0, stderr: '' }, name)
    }
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'shell-')))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    git(folder, 'clone', '--quiet', service.path, 'checkout')
    const checkout = join(folder, 'checkout')
    git(checkout, 'remote', 'set-url', 'origin', 'https://user:secret@git.example.org/acme/rocket.git')
    git(checkout, 'checkout', '--quiet', '--detach', sha)
    const found = await start(t, service, ['report', '--context', 'default', '--state', 'success'], {
      cwd: checkout,
    }).finished
    t.match(found, { code: 0, stdout: `acme/rocket ${sha} default success\n` })
    const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.org']
    const commit = (...args: string[]) => git(checkout, ...identity, ...args, '--quiet')
    commit('commit', '--allow-empty', '-m', 'reviewed')
    git(checkout, 'push', '--quiet', service.path, `HEAD:refs/heads/${name.split(' ')[0]}`)
    const reviewed = git(checkout, 'rev-parse', 'HEAD')
    git(checkout, 'checkout', '--quiet', sha)
    commit('merge', '--no-ff', '-m', 'merge', reviewed)
    const env = {
      GITHUB_EVENT_NAME: 'pull_request',
      GITHUB_REPOSITORY: 'acme/rocket',
      GITHUB_SHA: git(checkout, 'rev-parse', 'HEAD'),
    }
    const pull = await start(t, service, ['report', '--context', 'default', '--state', 'success'], {
      cwd: checkout,
      env,
    }).finished
    t.match(pull, { code: 0, stdout: `acme/rocket ${reviewed} default success\n` })
    git(checkout, 'push', '--quiet', service.path, `HEAD:refs/heads/merge-${name.split(' ')[0]}`)
    for (const forge of ['FORGEJO_ACTIONS', 'GITEA_ACTIONS'])
      t.match(
        await start(t, service, ['report', '--context', 'default', '--state', 'success'], {
          cwd: checkout,
          env: { ...env, [forge]: 'true' },
        }).finished,
        { code: 0, stdout: `acme/rocket ${env.GITHUB_SHA} default success\n` },
        'a head that is a merge itself',
      )
    git(checkout, 'checkout', '--quiet', reviewed)
    const head = { ...env, GITHUB_SHA: 'f'.repeat(40) }
    const checkedOut = await start(t, service, ['report', '--context', 'default', '--state', 'success'], {
      cwd: checkout,
      env: head,
    }).finished
    t.match(checkedOut, { code: 0, stdout: `acme/rocket ${reviewed} default success\n` })
    for (const event of foreignEvents) {
      const ran = await start(t, service, ['run', '--context', 'default', '--', 'sh', '-c', 'exit 3'], {
        cwd: checkout,
        env: { ...env, GITHUB_EVENT_NAME: event },
      }).finished
      const missing = new RegExp(`not stored: missing commit of the event ${event}: give --sha`)
      t.match(ran, { code: 3, stderr: missing }, event)
    }
    const travis = await start(t, service, ['report', '--context', 'default', '--state', 'success'], {
      cwd: checkout,
      env: { TRAVIS: 'true', TRAVIS_COMMIT: env.GITHUB_SHA, TRAVIS_PULL_REQUEST_SHA: sha },
    }).finished
    t.match(travis, { code: 0, stdout: `acme/rocket ${sha} default success\n` })
  })
}
