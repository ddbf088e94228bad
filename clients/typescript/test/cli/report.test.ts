import t from 'tap'
import { type CommandLineOptions, call, commandLine } from '../helpers/command-line.ts'
import { startService } from '../helpers/service.ts'

t.test('report and get', async (t) => {
  const { server, proxy, token, commit, stored } = await startService(t)
  const env = { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TOKEN: token }
  const place = ['--repo', 'acme/rocket', '--sha', commit.sha]
  const report = ['report', ...place, '--context', 'default']
  const cli = (args: string[], options?: CommandLineOptions) =>
    commandLine(t, args, { env, ...options }).finished
  const inProcess = (args: string[], own: Record<string, string> = env) => call(args, own)

  t.test('a report is stored, and --json prints it', async (t) => {
    const details = [
      '--context',
      'ci/build',
      '--description',
      '412 passed',
      '--target-url',
      'https://ci.example.org/1',
    ]
    const failed = await cli([...report, '--state', 'failure', ...details, '--json'])
    t.match(failed, { code: 0, stderr: '' })
    const fields = { context: 'ci/build', description: '412 passed', target_url: 'https://ci.example.org/1' }
    t.match(JSON.parse(failed.stdout), { state: 'failure', sha: commit.sha, ...fields })

    const short = await inProcess([...report, '--state', 'success'])
    t.match(short, { code: 0, stdout: `acme/rocket ${commit.sha} default success\n` })
    t.strictSame(await stored(), ['ci/build failure', 'default success'])
  })

  t.test('--truncate cuts a long description by code points', async (t) => {
    const args = [
      'report',
      ...place,
      '--state',
      'error',
      '--context',
      'long',
      '--description',
      '🚀'.repeat(1_030),
    ]
    t.match(await inProcess(args), { code: 2, stderr: /1030 characters/ })
    const cut = await inProcess([...args, '--truncate', '--json'])
    t.equal(cut.code, 0)
    t.equal(JSON.parse(cut.stdout).description, '🚀'.repeat(1_024))
  })

  t.test('get prints a table without colors or control characters, or JSON', async (t) => {
    const body = { state: 'pending', context: 'a\u001b[31mb', description: 'one\ntwo\u202e' }
    await server.report('acme/rocket', commit.sha, body, token)
    const table = await cli(['get', commit.sha, '--repo', 'acme/rocket'])
    t.equal(table.code, 0)
    const lines = table.stdout.trimEnd().split('\n')
    t.equal(lines[0], 'combined: failure')
    t.equal(lines[1], 'pending  a [31mb   one two ')
    t.match(lines[2], /^failure {2}ci\/build {2}412 passed {2}https:\/\/ci\.example\.org\/1$/)
    const json = await inProcess(['get', ...place, '--json'], { COMMIT_STATUS_URL: proxy.url })
    t.equal(json.code, 0, 'a public repository needs no token')
    t.equal(JSON.parse(json.stdout).statuses.length, 4)
  })

  t.test('no answer steers the terminal, or begins a command to the CI system', async (t) => {
    const hostile =
      'x\n::error::y\r\n##vso[task.complete result=Succeeded]##[error]\u2028z\u001b]0;t\u0007\u009b2J\u202e'
    const target_url = 'https://ci.example.org/##vso[task.complete]'
    const body = { state: 'failure', context: hostile, description: hostile, target_url }
    t.equal((await server.report('acme/rocket', commit.sha, body, token)).status, 201)
    const refusal = { status: 403, body: JSON.stringify({ error: hostile }) }
    proxy.plan(refusal, refusal)
    const answers = [
      await inProcess([...report, '--state', 'success']),
      await inProcess(['run', ...report.slice(1), '--', 'true'], { ...env, PATH: process.env.PATH ?? '' }),
      await inProcess(['get', ...place]),
      await inProcess(['get', ...place, '--json']),
      await inProcess(['wait', ...place, '--timeout', '0.1s']),
      await inProcess(['wait', ...place, '--timeout', '0.1s', '--json']),
    ]
    for (const { stdout, stderr } of answers) {
      t.notMatch(stdout + stderr, /##|^\s*::/m)
      t.notMatch(stdout + stderr, /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028]/u)
      for (const line of stderr.split('\n')) t.match(line, /^(?:commit-status: |$)/)
    }
    t.equal(
      JSON.parse(answers[3]?.stdout ?? '').statuses.find(
        (status: { context: string }) => status.context === hostile,
      ).target_url,
      target_url,
    )
    t.match(answers[4]?.stdout, /^failure {2}x ::error::y #vso\[.* https:\/\/ci\.example\.org\/#vso/m)
  })

  t.test('every command tells how it is used', async (t) => {
    for (const args of [['--help'], ['help'], ['-h']])
      t.match(await inProcess(args, {}), { code: 0, stdout: /^Usage: commit-status COMMAND/ }, args.join(' '))
    for (const args of [
      ['report', '--help'],
      ['get', '-h'],
      ['run', '-h', '--', 'ls'],
      ['help', 'wait'],
      ['land', '--help'],
      ['gate', '-h'],
      ['completion', '--help'],
    ]) {
      const name = args[0] === 'help' ? args[1] : args[0]
      const expected = new RegExp(
        `^Usage: commit-status ${name} [^]*^Example:\\n  commit-status ${name} `,
        'm',
      )
      t.match(await inProcess(args, {}), { code: 0, stdout: expected, stderr: '' }, args.join(' '))
    }
    t.match((await inProcess(['wait', '--help'], {})).stdout, /^ {2}4 {2}at the timeout a required check/m)
    t.match(await cli(['--version'], { env: {} }), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ })
  })

  t.test('2 is wrong usage or an invalid value, 5 unreachable or refused', async (t) => {
    const passed = proxy.passages.length
    const usages: [string[], RegExp][] = [
      [[], /missing command/],
      [['frobnicate'], /^commit-status: unknown command "frobnicate" \(see commit-status --help\)\n$/],
      [['repotr'], /^commit-status: unknown command "repotr"; did you mean report\?\n$/],
      [['help', 'lnad'], /^commit-status: unknown command "lnad"; did you mean land\?\n$/],
      [['wait', '--requre', 'a'], /^commit-status: unknown option --requre; did you mean --require\?\n$/],
      [['get', '--josn'], /^commit-status: unknown option --josn; did you mean --json\?\n$/],
      [
        ['get', '--sha'],
        /^commit-status: Option '--sha <value>' argument missing \(see commit-status get --help\)\n$/,
      ],
      [
        ['completion'],
        /^commit-status: expected one of bash, zsh, fish \(see commit-status completion --help\)\n$/,
      ],
      [['completion', 'fsh'], /got "fsh"; did you mean fish\?\n$/],
      [report, /--state must be one of/],
      [[...report, '--state', 'done'], /--state must be one of/],
      [
        ['report', ...place, '--token', token],
        /^commit-status: unknown option --token \(see commit-status report --help\)\n$/,
      ],
      [['report', ...place, '--state', 'success'], /missing context: give --context NAME/],
      [['get', '--repo', 'acme', '--sha', commit.sha], /OWNER\/NAME/],
      [['get', commit.sha, ...place], /expected one commit, got 2/],
    ]
    await Promise.all(
      usages.map(async ([args, message]) =>
        t.match(await inProcess(args), { code: 2, stdout: '', stderr: message }),
      ),
    )
    for (const [given, missing] of [
      [['--sha', commit.sha], /--repo/],
      [['--repo', 'acme/rocket'], /--sha/],
    ] as const) {
      const outside = await cli(['report', '--state', 'success', '--context', 'a', ...given])
      t.match(outside, { code: 2, stdout: '', stderr: missing })
    }
    t.match(await inProcess(['get', ...place], {}), { code: 2, stderr: /COMMIT_STATUS_URL/ })
    // CI systems withhold secrets from some jobs, and then pass an empty variable.
    t.match(await inProcess([...report, '--state', 'success'], { ...env, COMMIT_STATUS_TOKEN: '' }), {
      code: 2,
      stderr: /missing token: set COMMIT_STATUS_TOKEN/,
    })
    t.equal(proxy.passages.length, passed, 'nothing was sent')
    t.match(await cli(['get', '--repo', 'acme/rocket', 'abc']), { code: 2, stderr: /full commit id/ })
    t.match(await inProcess(['get', '--repo', 'acme/none', commit.sha]), { code: 5 })
    const refused = await inProcess([...report, '--state', 'success'], {
      ...env,
      COMMIT_STATUS_TOKEN: 'nonsense',
    })
    t.match(refused, { code: 5, stderr: /success of default was not stored/ })
    await proxy.close()
    const unreachable = { ...env, COMMIT_STATUS_TIMEOUT: '1s' }
    t.match(await inProcess(['get', ...place], unreachable), { code: 5, stderr: /ECONNREFUSED/ })
    t.match(await inProcess([...report, '--state', 'success'], unreachable), { code: 5 })
    await proxy.open()
  })

  t.test('help is there, and no message holds the token', async (t) => {
    t.match(await inProcess(['--help']), { code: 0, stdout: /Usage: commit-status/ })
    const password = await inProcess(['get', ...place, '--url', `http://u:${token}@127.0.0.1`])
    t.equal(password.code, 2)
    t.notMatch(password.stderr, token)
    const broken = await inProcess(['get', ...place], { ...env, COMMIT_STATUS_TOKEN: `${token}\nx` })
    t.equal(broken.code, 2)
    t.notMatch(broken.stderr, token)
  })
})
