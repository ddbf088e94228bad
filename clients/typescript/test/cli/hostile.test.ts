import t from 'tap'
import { call } from '../helpers/command-line.ts'
import { startService } from '../helpers/service.ts'

/** Begins a command to GitHub Actions, clears a terminal, and holds commands to other CI systems. */
const evil = '::error::x\n::add-mask::y\r\t ::z\x1b[2J\u009b\u202e##vso[task.complete]\u2028::q'
/** What the command itself writes. */
const colors = [0, 31, 32, 33].map((color) => `\x1b[${color}m`)
const body = (value: unknown) => JSON.stringify(value)
const status = {
  id: evil,
  sha: evil,
  context: evil,
  state: evil,
  description: evil,
  target_url: evil,
  created_at: evil,
  updated_at: evil,
}

t.test('nothing of what the service answers is a command to a CI system or a terminal', async (t) => {
  const { proxy, token, commit } = await startService(t)
  const env = { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TOKEN: token }
  const place = ['--repo', 'acme/rocket', '--sha', commit.sha]
  const quick = ['--timeout', '0.2s', '--interval', '0.1s', '--settle', '0s']
  const failed = { ...status, state: 'failure' }
  const listOf = (each: object) => body({ state: evil, statuses: [each] })
  const [statuses, failures] = [listOf(status), listOf(failed)]
  const verdict = (state: unknown) =>
    body({ verdict: state, state: evil, required: [{ pattern: evil, state, contexts: [evil] }] })
  const error = body({ error: evil })
  const report = ['report', ...place, '--context', 'c', '--target-url', '', '--state', 'success']
  const cases: [
    args: string[],
    answers: { status: number; body?: string; headers?: Record<string, string> }[],
  ][] = [
    [['get', ...place], [{ status: 200, body: statuses }]],
    [['get', ...place, '--json'], [{ status: 200, body: statuses }]],
    [['get', ...place], [{ status: 404, body: error }]],
    [['get', ...place], [{ status: 400, body: error }]],
    [['get', ...place], [{ status: 301, headers: { location: '::error::' } }]],
    [
      ['wait', ...place, ...quick],
      [
        { status: 200, body: statuses },
        { status: 200, body: failures },
      ],
    ],
    [['wait', ...place, ...quick, '--require', 'x'], [{ status: 200, body: failures }]],
    [['wait', ...place, ...quick, '--json'], [{ status: 200, body: failures }]],
    [
      ['wait', ...place, ...quick, '--events'],
      [
        { status: 200, body: statuses },
        { status: 200, body: failures },
      ],
    ],
    [
      ['wait', ...place, ...quick],
      [
        { status: 200, body: statuses },
        { status: 403, body: error },
      ],
    ],
    ...['pending', 'failure', evil].map((state): (typeof cases)[number] => [
      ['wait', ...place, ...quick.slice(0, 4), '--branch', 'main', ...(state === evil ? ['--events'] : [])],
      [
        { status: 200, body: verdict(state) },
        { status: 200, body: failures },
      ],
    ]),
    [['wait', ...place, ...quick.slice(0, 4), '--branch', 'main'], [{ status: 401, body: error }]],
    [report, [{ status: 201, body: body(status) }]],
    [[...report, '--json'], [{ status: 201, body: body(status) }]],
    [report, [{ status: 422, body: error }]],
    [
      ['report', ...place, '--context', evil, '--target-url', '', '--state', 'success'],
      [{ status: 201, body: body(status) }],
    ],
    [
      ['gate', '--branch-rules', '--repo', 'acme/rocket', 'refs/heads/main', '0'.repeat(40), commit.sha],
      [{ status: 200, body: verdict('failure') }],
    ],
    [['get', ...place, evil], []],
    [[evil], []],
    [['wait', `--${evil}`], []],
  ]
  for (const [args, answers] of cases) {
    for (const color of ['', '1']) {
      proxy.plan(...answers)
      const { stdout, stderr } = await call(args, { ...env, FORCE_COLOR: color })
      const name = (args[0] ?? '').replace(evil, 'unknown')
      t.not(stdout + stderr, '', name)
      for (const line of `${stdout}${stderr}`.split('\n')) {
        // Colors are the command's own.
        const shown = colors.reduce((text, color) => text.replaceAll(color, ''), line)
        t.notMatch(shown, /^\s*::|##|[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u, name)
      }
      proxy.dropPlan()
    }
  }
})
