import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { LONGEST_PAUSE } from '../src/backoff.ts'
import { branchesOptions } from '../src/cli/branches.ts'
import { completionOptions } from '../src/cli/completion/completion.ts'
import { parseDuration } from '../src/cli/duration.ts'
import { exitCodes, exitCodeTable } from '../src/cli/exit-codes.ts'
import { gateOptions } from '../src/cli/gate.ts'
import { getOptions } from '../src/cli/get.ts'
import { commandHelp } from '../src/cli/help/commands.ts'
import { renderCommandHelp, renderHelp } from '../src/cli/help/render.ts'
import { landOptions } from '../src/cli/land/land.ts'
import { lastPassedOptions } from '../src/cli/last-passed.ts'
import { reportOptions } from '../src/cli/report.ts'
import { runOptions } from '../src/cli/run.ts'
import { waitOptions } from '../src/cli/wait.ts'
import { workOptions } from '../src/cli/work/options.ts'
import { createClient, defaultTimes } from '../src/client.ts'
import { operations } from '../src/generated/operations.ts'
import { slowdown } from '../src/poll.ts'
import { RETRIED } from '../src/transport.ts'
import { waitDefaults } from '../src/wait-for-state.ts'
import { commandLine } from './helpers/command-line.ts'
import { execute } from './helpers/package.ts'
import { environmentOf, placeOf, runScript } from './helpers/run-script.ts'
import { startService } from './helpers/service.ts'

// The lines of its shell blocks are run by package.test.ts.
const readme = readFileSync(resolve(import.meta.dirname, '../README.md'), 'utf8')
const script = readFileSync(resolve(import.meta.dirname, '../../shell/commit-status'), 'utf8')
const { engines } = JSON.parse(readFileSync(resolve(import.meta.dirname, '../package.json'), 'utf8'))
const cli = resolve(import.meta.dirname, '../src/cli')
const commands = {
  report: reportOptions,
  run: runOptions,
  work: workOptions,
  get: getOptions,
  wait: waitOptions,
  'last-passed': lastPassedOptions,
  branches: branchesOptions,
  land: landOptions,
  gate: gateOptions,
  completion: completionOptions,
}
/** All of the help. */
const help = [
  renderHelp(),
  ...Object.entries(commandHelp).map(([name, about]) => renderCommandHelp(name, about)),
].join('\n')
/** Options of npm, npx, node and the server's command line. */
const FOREIGN = [
  '--eval',
  '--first-parent',
  '--global',
  '--help',
  '--name',
  '--no',
  '--no-save',
  '--package',
  '--prefix',
  '--silent',
]

const all = (text: string, pattern: RegExp) =>
  [...new Set(text.match(new RegExp(pattern.source, `${pattern.flags}g`)))].sort()
const first = (pattern: RegExp) => pattern.exec(readme)?.[1] ?? 'not found'
const named = (tables: object[]) => tables.flatMap((table) => Object.keys(table).map((name) => `--${name}`))

t.test('options and commands are those that the program parses', async (t) => {
  const options = [...new Set(named(Object.values(commands)))].sort()
  const mentioned = (text: string) =>
    all(text, /(?<![\w-])--[a-z][a-z-]*/).filter((option) => !FOREIGN.includes(option))
  t.strictSame(mentioned(readme), options)
  t.strictSame(mentioned(help), options)
  const usages = all(help, /(?<=^Usage: commit-status )[a-z-]+/m)
  t.strictSame(usages, Object.keys(commands).sort())
  for (const [, name = '', rest = ''] of readme.matchAll(/commit-status ([\w-]+)([^\n`]*)/g)) {
    const table = Object.entries(commands).find(([command]) => command === name)?.[1]
    t.ok(table, `commit-status ${name}`)
    const own = rest.split(' -- ')[0] ?? ''
    for (const option of mentioned(own)) t.ok(named([table ?? {}]).includes(option), `${name} ${option}`)
  }
})

t.test('exit codes', async (t) => {
  const { success, usage, unanswered } = exitCodes
  const rows = [...readme.matchAll(/^\| (\d) +\| (.+?) +\| (.+?) +\|$/gm)].map(
    ([, code, meaning, names]) => ({
      code: Number(code),
      meaning,
      commands: names?.split(', ').map((name) => name.replaceAll('`', '')),
    }),
  )
  t.strictSame(rows, exitCodeTable)
  const rules = [...readme.matchAll(/^\d\. (.+): (\d)\.$/gm)].map(([, when, code]) => [when, Number(code)])
  t.match(rules, [
    [/is `failure` or `error`/, exitCodes.failure],
    [/all contexts are `success`/, exitCodes.success],
    [/--stalled/, exitCodes.stalled],
    [/matches no reported context/, exitCodes.missing],
    [/still pending/, exitCodes.pending],
  ])
  t.equal(rules.length, 5)
  const skill = readFileSync(resolve(import.meta.dirname, '../SKILL.md'), 'utf8')
  t.match(
    [...skill.matchAll(/^\| ([\d, ]+) \| (.+?) \|/gm)].map(([, codes, meaning]) => [meaning, codes]),
    [
      [/is on `main`/, `${success}`],
      [/a check failed/, `${exitCodes.failure}`],
      [/conflicts/, `${exitCodes.conflict}`],
      [/is pending, or has not reported/, `${exitCodes.pending}, ${exitCodes.missing}`],
      [/no rule matches/, `${exitCodes.noRules}`],
      [/the server is away, or refuses/, `${unanswered}`],
      [/wrong usage/, `${usage}`],
    ],
  )
  t.match(readme, new RegExp(`exits with ${unanswered}, or with ${usage} for a\\s+missing or invalid value`))
  const outcomes = first(/`outcome` is (.+?);/)
  t.strictSame(
    all(outcomes, /\w+(?=`)/),
    Object.keys(exitCodes)
      .filter((name) => !['usage', 'noRules', 'conflict'].includes(name))
      .sort(),
  )
})

t.test('environment variables', async (t) => {
  const sources = readdirSync(cli, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(resolve(cli, name), 'utf8'))
  const read = all(sources.join('\n'), /(?<=env\.)COMMIT_STATUS_\w+/)
  t.strictSame(all(readme, /(?<=^\| `)COMMIT_STATUS_\w+/m), read)
  t.strictSame(all(help, /COMMIT_STATUS_\w+/), read)
})

t.test('defaults and limits', async (t) => {
  const times = {
    settle: first(/for `--settle` \(default `(\w+)`\)/),
    timeout: first(/`--timeout` is `(\w+)` by default/),
    interval: first(/`--interval`, default `(\w+)`\)/),
  }
  for (const [name, value] of Object.entries(times))
    t.match(renderCommandHelp('wait', commandHelp.wait), new RegExp(`--${name} TIME .*, ${value} by default`))
  const inMilliseconds = Object.entries(times).map(([name, text]) => [name, parseDuration(text, name)])
  t.strictSame(Object.fromEntries(inMilliseconds), waitDefaults)
  const number = (text: string) => Number(text.replaceAll(',', ''))
  t.equal(number(first(/^\| `timeout` +\|[^|]+\| ([\d,]+)/m)), defaultTimes.timeout)
  t.equal(number(first(/^\| `totalTimeout` +\|[^|]+\| ([\d,]+)/m)), defaultTimes.totalTimeout)
  for (const text of [
    first(/one request, `(\w+)` by default/),
    /one request, (\w+) by default/.exec(help)?.[1] ?? '',
  ]) {
    t.equal(parseDuration(text, 'default'), defaultTimes.totalTimeout)
  }
  t.equal(Number(first(/retried for at most (\d+) seconds/)) * 1_000, defaultTimes.totalTimeout)
  t.equal(Number(first(/random pause of up to (\d+) seconds/)) * 1_000, LONGEST_PAUSE)
  t.strictSame(all(first(/errors and the answers ([\s\S]+?) are retried/), /\d{3}/).map(Number), RETRIED)
  const { description } = operations.reportStatus.maxLength
  t.equal(Number(first(/cuts a description after (\d+) characters/)), description)
})

t.test('numbers about the shell script, pauses and versions', async (t) => {
  const stops = all(script, /(?<= end=\$\(\(\$\(now\) \+ )\d+(?=\)\))/)
  // It counts hundredths of a second.
  t.strictSame(stops, [`${first(/always stops retrying after (\d+) seconds/)}00`])
  t.equal(Number(first(/every (\d+) intervals after half a minute/)), slowdown(30_000))
  t.equal(Number(first(/every (\d+) after five minutes/)), slowdown(300_000))
  // What any curl has had for twenty years.
  t.strictSame(all(first(/which needs (curl), of any version;/), /curl/), ['curl'])
  t.strictSame(all(script, /(?<=curl -K- -isS) --[a-z-]+/), [' --max-time'])
  t.match(engines.node, `>=${first(/Node ([\d.]+) and later/)}.`)
})

t.test('promises in these words are kept', async (t) => {
  const service = await startService(t, { commits: 2 })
  const { server, commit, token } = service
  const run = async (script: string) => {
    const { stdout } = await runScript(t, service, script, '--context', 'ci/test').finished
    return `${stdout}${await service.stored()}`
  }
  const requests: string[] = []
  const listening = (answer: () => Response | null) =>
    createClient({
      baseUrl: server.url,
      token: requests.length === 0 ? 'wrong' : token,
      fetch: async (request) => {
        requests.push(request.method)
        return answer() ?? fetch(request)
      },
    })
  const refused = listening(() => null)
  for (const _ of [1, 2]) await refused.listStatuses(commit)
  t.same(requests, ['GET'])
  const busy = listening(() => (requests.length === 2 ? Response.json({}, { status: 503 }) : null))
  const sent = (['pending', 'success'] as const).map((state) =>
    busy.reportStatus({ ...commit, body: { state, context: 'order' } }),
  )
  await Promise.all(sent)
  const again = await service.again()
  const place = { env: environmentOf(again) }
  const exitCode = async (...args: string[]) => (await commandLine(t, args, place).finished).code
  again.proxy.plan({ status: 301, headers: { location: server.url } }, { status: 403 }, { status: 403 })
  const mine = createClient({ baseUrl: again.proxy.url, token })
  const redirected = await mine.listStatuses(again.commit)
  const ofFailedReports = await exitCode('run', ...placeOf(again), '--', 'sh', '-c', 'exit 7')
  // On a busy machine it may have given up the first report before that arrived.
  again.proxy.dropPlan()
  for (const [context, state] of Object.entries({ good: 'success', bad: 'failure' }))
    await server.report('acme/rocket', again.commit.sha, { context, state }, token)
  const wait = ['wait', ...placeOf(again).slice(0, 4), '--require', 'good']
  const rows: [words: string, answer: unknown, expected: unknown][] = [
    [
      '`commit-status run` exits with the exit code of the command that it runs, whatever happens to the report.',
      ofFailedReports,
      7,
    ],
    [
      'A method never rejects, except with the reason of your own `signal`.',
      await mine.listStatuses(again.commit, { signal: AbortSignal.abort('mine') }).catch(String),
      'mine',
    ],
    [
      "Status 0 means that there is no answer of this API: no connection, no answer in time, a gateway's error page.",
      (await createClient({ baseUrl: 'http://127.0.0.1:1', totalTimeout: 1 }).listStatuses(commit)).status,
      0,
    ],
    [
      'A base URL that redirects is refused with a message instead of followed,',
      [redirected.status, /redirects to/.test(JSON.stringify(redirected.body))],
      [0, true],
    ],
    [
      'Sign in and create one under `/settings/tokens`,',
      (await server.call('GET', '/settings/tokens')).headers.get('location')?.split('?')[0],
      '/login',
    ],
    [
      'Contexts that no pattern matches count too, as they do in the combined state. `--only` ignores them.',
      [await exitCode(...wait), await exitCode(...wait, '--only')],
      [exitCodes.failure, exitCodes.success],
    ],
    ['After a 401 a client with a token sends nothing more', requests[0], 'GET'],
    [
      'Reports of one context are sent in the order of the calls, and an earlier one is not retried once a later one waits.',
      [requests.slice(1), await service.stored()],
      [['POST', 'POST'], ['order success']],
    ],
    ['`failure` (an exit code other than 0)', await run('exit 3'), 'ci/test failure,order success'],
    ['`error` (killed by a signal', await run('kill -KILL $$'), 'ci/test error,order success'],
    [
      'The command does not get `COMMIT_STATUS_TOKEN`,',
      await run('printf "<%s>" "$COMMIT_STATUS_TOKEN"'),
      '<>ci/test success,order success',
    ],
  ]
  for (const [words, answer, expected] of rows) {
    t.ok(readme.replace(/\s+/g, ' ').includes(words), words)
    t.same(answer, expected, words)
  }
})

t.test('the curl line asks for a verdict over its patterns', async (t) => {
  const { server, token, commit } = await startService(t)
  const line = first(/`(curl .+)`/)
  const ask = async () => {
    const env = { COMMIT_STATUS_URL: server.url, SHA: commit.sha }
    return JSON.parse(await execute('/', 'sh', ['-ec', line.replace('curl ', 'curl --silent ')], env))
  }
  const report = (context: string) =>
    server.report('acme/rocket', commit.sha, { state: 'success', context }, token)
  await report('ci/build')
  t.match(await ask(), { verdict: 'pending', required: [{ pattern: 'ci/*' }, { pattern: 'lint' }] })
  await report('lint')
  t.match(await ask(), { verdict: 'success' })
})
