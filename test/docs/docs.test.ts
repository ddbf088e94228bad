import { execFileSync, spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import tap, { type Test } from 'tap'
import { parse } from 'yaml'
import { LONGEST_PAUSE } from '../../clients/typescript/src/backoff.ts'
import { defaultTimes } from '../../clients/typescript/src/client.ts'
import { RETRIED } from '../../clients/typescript/src/transport.ts'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import { MAX_LISTED } from '../../src/api/handlers.ts'
import { hashPassword } from '../../src/auth/password.ts'
import { COMMON_PASSWORDS, MIN_NAME_LENGTH, MIN_PASSWORD_LENGTH } from '../../src/auth/password-rules.ts'
import { hashToken } from '../../src/auth/token.ts'
import { MAX_BRANCHES } from '../../src/branches/branch-page.ts'
import { MAX_OBJECTS } from '../../src/cli/parts/read-objects.ts'
import { resolve } from '../../src/codegen/document.ts'
import { describeVariables, readConfig } from '../../src/config.ts'
import { SHORT_ID } from '../../src/domain/commit-id.ts'
import { MAX_PATTERNS, matchesPattern } from '../../src/domain/patterns.ts'
import { MAX_REPOSITORY_PATTERNS, requiredBy, rulesOfRef } from '../../src/domain/ref-rules.ts'
import { refMatcher } from '../../src/domain/rule-patterns.ts'
import { OLDEST_GIT } from '../../src/git/git-version.ts'
import { MAX_LISTED_BRANCHES } from '../../src/git/history/branch-lists.ts'
import { MAX_AGE } from '../../src/git/history/cached-reads.ts'
import { MAX_STARTS } from '../../src/git/history/log.ts'
import { DEFAULT_GIT_LIMITS } from '../../src/git-http/limits.ts'
import { MAX_RULED_BRANCHES } from '../../src/git-http/push/gate.ts'
import { MAX_REFS } from '../../src/git-http/push/push.ts'
import { addressKey } from '../../src/http/address.ts'
import { defaultConnectionLimits } from '../../src/http/connection-limits.ts'
import { MAX_WAITING } from '../../src/http/pipelining.ts'
import { DEFAULT_TIMEOUTS } from '../../src/http/server.ts'
import { GRACE_PERIOD } from '../../src/ops/stop.ts'
import { QUIET } from '../../src/replies/error-log.ts'
import { BUSY_TIMEOUT } from '../../src/store/sqlite/driver-errors.ts'
import { CLOCK_TOLERANCE } from '../../src/store/statuses/claims.ts'
import { TOLERANCE } from '../../src/store/statuses/runs.ts'
import { referenceView } from '../../src/web/pages/docs/reference.ts'
import { createFixture } from '../bench/fixture.ts'
import { BENCH_HELP, benchOptions } from '../bench/options.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../contract/json.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { git, gitWith } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startProcess } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'
import { unescaped } from '../helpers/unescaped.ts'
import { BLOCKS, blocksByHeading } from '../soak/operators/blocks.ts'
import { unknownNames } from './commands.ts'
import { codeBlocks, createMachine, readDocument } from './machine.ts'
import { commandRows, variableRows } from './tables.ts'

const GUIDE = 'src/ops/README.md'
const CLI = 'clients/typescript/src/cli/main.ts'
/** A page that has what is written about the whole server. */
const REFERENCE = '/docs/reference'
/** Prints the token that it gets, and fails. */
const JOB = ['sh', '-c', 'echo "<$COMMIT_STATUS_TOKEN>"; exit 3']
const DOCUMENTS = [
  'README.md',
  GUIDE,
  'src/README.md',
  '.github/CONTRIBUTING.md',
  '.github/SECURITY.md',
  'clients/typescript/README.md',
  'clients/typescript/SKILL.md',
  'clients/recipes/README.md',
]
/** Durations and numbers as prose says them. */
const IN_WORDS: Record<string, string> = { '1h': 'an hour', 5: 'five' }
// Each of these mostly waits for processes.
tap.jobs = 4
const test = (name: string, work: (t: Test) => Promise<void>) => tap.test(name, { buffered: true }, work)

/** The contract as it is written, with its references. */
const document = object(parse(readDocument('openapi.yaml')), 'openapi.yaml')
const defaultOf = (name: string) => describeVariables().find((row) => row.name === name)?.default ?? ''
/** Returns the text of a document on one line, so that sentences can be matched. */
const sentencesOf = (path: string) =>
  path === REFERENCE ? reference : readDocument(path).replace(/\s+/g, ' ')
/** The text of the page, on one line, with marks as documents have them. */
const reference = unescaped(
  referenceView
    .toString()
    .replace(/<h2[^>]*>/g, '## ')
    .replace(/<\/?code[^>]*>/g, '`')
    .replace(/<[^>]*>/g, ''),
).replace(/\s+/g, ' ')
const tableAfter = (guide: string, head: string) => guide.split(head)[1]?.split('\n\n')[0]?.split('\n')

test('README: its commands lead to a first report', async (t) => {
  const machine = await createMachine(t)
  execFileSync('git', ['init', '--quiet', '--initial-branch=main', '.'], { cwd: machine.folder })
  const author = ['-c', 'user.name=A', '-c', 'user.email=a@example.org']
  execFileSync('git', [...author, 'commit', '--quiet', '--allow-empty', '--message=first'], {
    cwd: machine.folder,
  })
  const readme = readDocument('README.md')
  const blocks = codeBlocks(readme).filter(({ language }) => language !== 'text')
  t.ok(blocks.every(({ language }) => language === 'sh'))
  const lines = blocks.map(({ code }) => machine.localize(code))
  // The last two are for one terminal.
  const report = lines.splice(-2).join('\n')
  for (const code of lines) await machine.sh(code)
  const output = await machine.sh(report)
  const [, answer = '', lastPassed = ''] = output.split(/(?<=\})(?=\{)/)
  t.match(JSON.parse(answer), { state: 'success', statuses: [{ description: 'Reported by hand' }] })
  t.match(JSON.parse(lastPassed), { branch: 'main', commit: { state: 'success' }, looked_at: 1 })

  const [, rule = '', refusal = 'not found'] =
    /^## Required checks\n\n`(.+?)`[\s\S]*?`(! \[remote rejected\].*?)`/m.exec(readme) ?? []
  await machine.sh(machine.localize(rule))
  execFileSync('git', [...author, 'commit', '--quiet', '--allow-empty', '--message=second'], {
    cwd: machine.folder,
  })
  const push = /^git push .*$/m.exec(report)?.[0] ?? ''
  const other = `"$(git ${author.join(' ')} commit-tree -m other 'HEAD^{tree}')"`
  const pushes = ['HEAD:', ':', `+${other}:`].map((source) => `${push.replace('HEAD:', source)} 2>&1 || true`)
  const refused = await machine.sh(
    `${report.replace('HEAD:refs/heads/main', 'HEAD:refs/heads/topic')}\n${pushes.join('\n')}`,
  )
  t.match(refused, refusal)
  t.match(sentencesOf(GUIDE), 'A branch with a rule can be neither deleted nor pushed to by force.')
  t.match(refused, 'a branch with required checks cannot be deleted')
  t.match(refused, 'a branch with required checks cannot be pushed to by force')
})

test(`${REFERENCE}: its badge`, async (t) => {
  const section = reference.split('## Badge')[1]?.split('## ')[0] ?? ''
  const { pathname, searchParams } = new URL(/\(([^()]*badge\.svg[^()]*)\)/.exec(section)?.[1] ?? '')
  const server = await startServer(t)
  const [owner = '', name = ''] = pathname.split('/').slice(1)
  const { commits } = await server.createRepository(`${owner}/${name}`)
  const token = await server.createToken(owner)
  const report = { state: 'success', context: searchParams.get('context') }
  await server.report(`${owner}/${name}`, commits[0] ?? '', report, token)
  const badge = (parameters: URLSearchParams) => fetch(`${server.url}${pathname}?${parameters}`)
  const shown = await badge(searchParams)
  t.match(await shown.text(), 'success')
  const [, maxAge] = /max-age=(\d+)/.exec(shown.headers.get('cache-control') ?? '') ?? []
  t.same(new Set(section.match(/\d+(?= seconds)/g)), new Set([maxAge]))
  const named = section.match(/(?<=`)[a-z]+(?=`)/g)
  t.same(new Set(named), new Set(searchParams.keys()))
  for (const key of searchParams.keys()) {
    const changed = new URLSearchParams(searchParams)
    changed.set(key, 'missing')
    t.match(await (await badge(changed)).text(), key === 'ref' ? 'unknown' : 'no status', key)
  }
  t.match(
    section,
    'A private repository, a missing one, and an unknown `ref` all have the same badge, "unknown".',
  )
  await server.createRepository(`${owner}/hidden`, { private: true })
  const badges = await Promise.all(
    ['hidden/badge.svg', 'missing/badge.svg', `${name}/badge.svg?ref=none`].map(async (path) =>
      (await fetch(`${server.url}/${owner}/${path}`)).text(),
    ),
  )
  t.equal(new Set(badges).size, 1)
})

test('openapi.yaml: its curl lines report, read and decide', async (t) => {
  const server = await startServer(t)
  const [sha = ''] = (await server.createRepository('acme/rocket')).commits
  const machine = await createMachine(t)
  const variables = `BASE_URL=${server.url} SHA=${sha} TOKEN=${await server.createToken('acme')}\n`
  const info = object(document.info, 'info')
  const outputs = []
  for (const { code } of codeBlocks(text(info.description, 'description'))) {
    outputs.push(JSON.parse(await machine.sh(variables + code)))
  }
  t.match(outputs, [
    { context: 'ci/build', state: 'success' },
    { statuses: [{ context: 'ci/build' }] },
    { verdict: 'pending' },
    { branch: 'main', commit: { state: 'success' } },
  ])
})

test('openapi.yaml: every number in its prose is that of the schema, or of the server', async (t) => {
  const seconds = String(TOLERANCE / 1000)
  const bodyLimit = operations.reportStatus.bodyLimit.toLocaleString('en')
  t.same(foreignNumbers(document), {
    info: [bodyLimit, Number(defaultOf('MAX_CONTEXTS')).toLocaleString('en'), '16'],
    parameters: [MAX_LISTED.toLocaleString('en')],
    // A `pending` without `claim` counts as 0, and over one `Retry-After` is at least 1.
    post: [seconds, '0', '1', '1', String(CLOCK_TOLERANCE / 1000), seconds],
    get: [String(MAX_BRANCHES)],
    truncated: [MAX_LISTED_BRANCHES.toLocaleString('en')],
    ContentTooLarge: [bodyLimit],
    'Retry-After': ['1', '1'],
  })
  const server = await startServer(t)
  const withHeaders = (bytes: number) => server.call('GET', '/healthz', { headers: { x: 'x'.repeat(bytes) } })
  t.equal((await withHeaders(15 * 1024)).status, 200)
  t.equal((await withHeaders(16 * 1024)).status, 431, 'headers over 16 KiB')
})

test('every file that a document names exists', async (t) => {
  for (const document of DOCUMENTS) {
    const text = readDocument(document)
    const named = [...text.matchAll(/`((?:test|src|clients|generated)\/[\w./-]+)`/g)].map(
      ([, path = '']) => path,
    )
    const linked = [...text.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path = '']) =>
      join(dirname(document), path),
    )
    for (const path of [...named, ...linked]) t.ok(existsSync(path), `${document}: ${path}`)
    for (const [, path = '', anchor = ''] of text.matchAll(/\]\(([^)#:]*)#([^)]+)\)/g)) {
      const target = path === '' ? text : readDocument(join(dirname(document), path))
      const anchors = [...target.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
        heading
          .toLowerCase()
          .replace(/[^\w\s-]/g, '')
          .replace(/\s/g, '-'),
      )
      t.ok(anchors.includes(anchor), `${document}: ${path}#${anchor}`)
    }
  }
  // Names files below `src`; the diagram of a push, those below `git-http` too.
  for (const [, path = ''] of readDocument('src/README.md').matchAll(
    /[\s`(](?!src|test|clients)((?:[a-z-]+\/)+[a-z-]+\.ts)/g,
  ))
    t.ok(existsSync(`src/${path}`) || existsSync(`src/git-http/${path}`), `src/README.md: ${path}`)
})

test('every command, option, script and file in the code of a document exists', async (t) => {
  for (const document of DOCUMENTS) t.same(unknownNames(readDocument(document)), [], document)
  const wrong: [code: string, problem: string][] = [
    [
      'npm run --silent cli -- rule set alice/rocket main --requires lint',
      'commit-status-admin set has no --requires',
    ],
    ['npm run --silent cli -- rule put', '"put" is no command of rule'],
    ['prune --older 1d', 'commit-status-admin prune has no --older'],
    ['npx commit-status wait --requires a', 'commit-status wait has no --requires'],
    ['npx commit-status watch', '"watch" is no command of commit-status'],
    ['--nopush', 'no program of this document has --nopush'],
    ['node test/runs.ts', 'no file test/runs.ts'],
    ['npm run soaks', 'package.json has no script "soaks"'],
    ['npm run soak -- waiter', 'no proof "waiter"'],
    ['npm run bench -- --sizes 1', 'npm run bench has no --sizes'],
    ['curl --fails', 'curl has no --fails'],
  ]
  for (const [code, problem] of wrong) t.same(unknownNames(`\`${code}\``), [problem])
})

test('npm run bench explains itself', async (t) => {
  const named = [...BENCH_HELP.matchAll(/^ {2}--([a-z]+)/gm)].map(([, name]) => name)
  const modes = ['against', 'rows', 'paths', 'sizing', 'help']
  t.same([...named, ...modes].sort(), Object.keys(benchOptions).sort())
  for (const mode of modes.slice(0, 4)) t.match(BENCH_HELP, `npm run bench -- --${mode}`)
  const bench = (option: string) => startProcess(t, process.execPath, ['test/bench/run.ts', option])
  const [help, unknown] = [bench('--help'), bench('--sizes')]
  t.equal(await help.ended, 0)
  t.equal(help.stdout(), BENCH_HELP)
  t.equal(await unknown.ended, 2)
  t.equal(unknown.stderr(), "Unknown option '--sizes'; see npm run bench -- --help\n")
})

test('npm run bench leaves no folder when its database cannot be filled', async (t) => {
  const folder = temporaryFolder(t)
  const before = process.env.TMPDIR
  process.env.TMPDIR = folder
  t.teardown(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  })
  const nobody = `postgres://127.0.0.1:${await freePort()}/none`
  await t.rejects(createFixture(10, nobody), /ECONNREFUSED/)
  t.same(readdirSync(folder), [])
})

test('numbers in prose are those of the program', async (t) => {
  const oldestGit = `${OLDEST_GIT.major}.${OLDEST_GIT.minor}`
  // No behavior of the server shows it: git reads `safe.directory` from the environment since that
  // version.
  const [, gitOfOthers] =
    /git before ([\d.]+) does not read/.exec(readDocument('src/git/environment.ts')) ?? []
  const { pace, answerMemory, maxBodies } = DEFAULT_GIT_LIMITS
  const rows: [document: string, sentence: RegExp, value: string | number | undefined][] = [
    ['README.md', /git ([\d.]+) or later/, oldestGit],
    [GUIDE, /git ([\d.]+) or later/, oldestGit],
    ['README.md', /\(([\d.]+) to serve repositories of other accounts\)/, gitOfOthers],
    [GUIDE, /for at most (\S+) seconds\. A second signal/, GRACE_PERIOD / 1000],
    [GUIDE, /finished first, for at most (\S+) s/, GRACE_PERIOD / 1000],
    [GUIDE, /A password has at least (\S+) characters/, MIN_PASSWORD_LENGTH],
    [GUIDE, /is not one of the (\S+) most common ones/, COMMON_PASSWORDS.toLocaleString('en')],
    [GUIDE, /the user's name, if that has at least (\S+) characters/, MIN_NAME_LENGTH],
    [GUIDE, /At most (\S+) patterns of at most \S+ characters/, MAX_PATTERNS],
    [GUIDE, /At most \S+ patterns of at most (\S+) characters/, schemas.ContextPattern.maxLength],
    [GUIDE, /requests wait for (\S+) seconds, at most/, DEFAULT_GIT_LIMITS.maxWait / 1000],
    [GUIDE, /less than (\S+) KB arrive/, pace.bytes / 1024],
    [GUIDE, /KB arrive in (\S+) seconds/, pace.window / 1000],
    [GUIDE, /has not begun after (\S+) minutes/, pace.first / 60_000],
    [GUIDE, /At most (\S+) fetches and \S+ pushes arrive/, maxBodies['git-upload-pack']],
    [GUIDE, /At most \S+ fetches and (\S+) pushes arrive/, maxBodies['git-receive-pack']],
    [GUIDE, /kept in memory, up to (\S+) MiB/, answerMemory.each / 1024 ** 2],
    [GUIDE, /at most one log line every (\w+) seconds/, IN_WORDS[`${QUIET / 1000}`]],
    [GUIDE, /all or none, and at most (\S+) at a time/, MAX_OBJECTS.toLocaleString('en')],
    [GUIDE, /A push has at most (\S+) refs/, MAX_REFS.toLocaleString('en')],
    [GUIDE, /A push updates at most (\S+) branches with rules/, MAX_RULED_BRANCHES],
    [GUIDE, /rules of a repository together have at most (\S+) patterns/, MAX_REPOSITORY_PATTERNS],
    ['clients/typescript/README.md', /retried for at most (\S+) seconds/, defaultTimes.totalTimeout / 1000],
    ['src/README.md', /reads at most (\S+) KiB, strict JSON/, operations.reportStatus.bodyLimit / 1024],
    ['src/README.md', /When more than (\S+) arrive at once/, MAX_WAITING],
    [GUIDE, /sends no request for (\S+) seconds/, DEFAULT_TIMEOUTS.idle / 1000],
    [GUIDE, /or for (\S+) seconds if it is a trusted proxy/, DEFAULT_TIMEOUTS.proxyIdle / 1000],
    ['src/README.md', /for (\S+) seconds is reset/, DEFAULT_TIMEOUTS.write / 1000],
    ['src/README.md', /is reset, (\S+) seconds after it stalled/, (2 * DEFAULT_TIMEOUTS.write) / 1000],
    ['src/README.md', /or HEAD changes, and for (\S+) s at most/, MAX_AGE / 1000],
    ['src/README.md', /1 to 3 ms instead, for at most (\S+) s\./, BUSY_TIMEOUT / 1000],
    ['src/README.md', /At most (\S+) parallel lines/, MAX_STARTS],
  ]
  t.equal(/(\S+) or more digits/.exec(reference)?.[1], String(SHORT_ID))
  const stalled = /nothing was reported for (.+?), or the time in `STALLED_AFTER`/.exec(reference)
  t.equal(stalled?.[1], IN_WORDS[defaultOf('STALLED_AFTER')])
  for (const [document, sentence, value] of rows) {
    const found = sentence.exec(sentencesOf(document))?.[1]
    t.equal(found, String(value), `${document}: ${sentence}`)
  }
})

test('lists in prose are those of the code', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('owner/repo')
  await createAccount(server, 'owner')
  const browser = openPageClient(server.url)
  await browser.signIn('owner')
  const places = { owner: 'owner', repo: 'repo', sha: commits[0] ?? '', name: 'main' }
  const [, table = ''] = /<tbody>([\s\S]*?)<\/tbody>/.exec(referenceView.toString()) ?? []
  const pages = [...table.matchAll(/<code>(.+?)<\/code>/g)].map(([, path = '']) => path)
  t.ok(pages.includes('/settings/tokens'))
  for (const page of pages) {
    const path = Object.entries(places).reduce((path, [key, value]) => path.replace(`{${key}}`, value), page)
    const { status } = await browser.get(
      path.endsWith('.git') ? `${path}/info/refs?service=git-upload-pack` : path,
    )
    t.equal(status, page.endsWith('{name}') ? 303 : 200, page)
  }

  const architecture = readDocument('src/README.md')
  const keys = tableAfter(architecture, '| key | on | meaning |\n| --- | --- | --- |\n')
  const known = ['read/read-spec.ts', 'lint/keywords.ts'].flatMap(
    (file) => readDocument(`src/codegen/${file}`).match(/(?<=')x-[a-z-]+(?=')/g) ?? [],
  )
  t.same(new Set(namesIn(keys, 0)), new Set(known))
  t.same(new Set(architecture.match(/(?<=`)x-[a-z-]+(?=`)/g)), new Set(known))
})

test('promises of the READMEs, in these words, are what the programs do', async (t) => {
  const server = await startServer(t)
  const { path, commits } = await server.createRepository('acme/rocket', { commits: 2 })
  const [sha = '', other = ''] = commits
  const token = await server.createToken('acme')
  const given = { state: 'success', context: ' a ', description: '' }
  const { headers, json, status } = await server.report('acme/rocket', sha, given, token)
  const again = await server.report('acme/rocket', sha, { ...given, state: 'failure' }, token)
  const origin = { headers: { origin: 'https://other.example' } }
  const read = await server.call('GET', `/api/v1/repos/acme/rocket/commits/${sha}/statuses`, origin)
  const missing = await server.report('acme/rocket', sha, { ...given, description: null }, token)
  const pushed = git(path, 'rev-parse', `${sha}^{tree}`)
  const shadowing = 'f'.repeat(40)
  git(path, 'update-ref', `refs/heads/${shadowing}`, sha)
  const now = Date.now
  Date.now = () => now() - 5_000
  const earlier = await server.report('acme/rocket', sha, given, token)
  Date.now = now
  for (const context of ['b', 'B', '\u{1f600}', '\ufffd'])
    await server.report('acme/rocket', other, { ...given, context }, token)
  const { statuses } = (await server.read('acme/rocket', other)).json
  const strict = await startServer(t, { budget: { limit: 1, window: 300 } })
  const asked = await strict.createRepository('acme/rocket')
  const ask = async (token?: string) =>
    (await strict.read('acme/rocket', asked.commits[0] ?? '', token)).status
  const files = Number(execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }))
  const verdictOf = async (state: string) => {
    await server.report('acme/rocket', other, { state, context: 'ci/all' }, token)
    const verdict = `/api/v1/repos/acme/rocket/commits/${other}/verdict?require=ci/all`
    return (await server.call('GET', verdict)).json.verdict
  }
  const verdicts = []
  for (const state of ['success', 'error', 'pending']) verdicts.push(await verdictOf(state))
  await server.report('acme/rocket', other, { state: 'failure', context: 'z' }, token)
  const page = await server.call('GET', `/acme/rocket/commits/${other}`)
  const blocked = [await ask('wrong'), await ask('wrong'), await ask()]
  const spent = { AUTH_FAILURE_LIMIT: '1', AUTH_FAILURE_WINDOW: '300' }
  const restarted = await startInstance(t, strict.options, spent)
  const kept = await server.createRepository('acme/kept', { commits: 2 })
  await server.report('acme/kept', kept.commits[1] ?? '', given, token)
  git(kept.path, 'update-ref', 'refs/heads/main', kept.commits[0] ?? '')
  git(kept.path, 'gc', '--quiet', '--prune=now')
  const gone = await server.createRepository('acme/gone')
  const limited = await server.createToken('acme', { limits: { repositories: [gone.id] } })
  await asAdministrator(server.store).repositories.delete({ owner: 'acme', name: 'gone' })
  const recreated = await server.createRepository('acme/gone')
  const browser = openPageClient(server.url)
  await createAccount(server, 'reader')
  await browser.signIn('reader')
  const cookie = browser.cookieHeader()
  const statusPath = `/api/v1/repos/acme/rocket/statuses/${sha}`
  const asCookie = await server.call('POST', statusPath, { headers: { cookie }, body: given })
  const started = performance.now()
  const held = await server.call('GET', `/api/v1/repos/acme/rocket/commits/${sha}/verdict?wait=25`, {
    headers: { 'if-none-match': '*' },
  })
  const unknown = await server.call('GET', `/api/v1/repos/acme/rocket/commits/${sha}/verdict?requires=a`)
  const lander = { owner: 'acme', name: 'lander' }
  const keeper = await server.createToken('acme', { limits: { repositories: [kept.id] } })
  await asAdministrator(server.store).repositories.rename({ owner: 'acme', name: 'kept' }, lander)
  const renamed = await server.read('acme/lander', kept.commits[1] ?? '', keeper)
  const job = spawnSync(process.execPath, [CLI, 'run', '--context', 'a', '--', ...JOB], {
    encoding: 'utf8',
    env: {
      PATH: process.env.PATH,
      COMMIT_STATUS_URL: 'http://127.0.0.1:9',
      COMMIT_STATUS_TOKEN: token,
      COMMIT_STATUS_REPO: 'acme/rocket',
      COMMIT_STATUS_SHA: sha,
      COMMIT_STATUS_TIMEOUT: '1s',
    },
  })
  const rule = (refPattern: string, ...required: string[]) => ({ refPattern, required, bypass: [] })
  const rules = [rule('release/*', 'ci/a'), rule('release/1/*', 'ci/b'), rule('Release/*', 'ci/c')]
  const CHANGELOG = 'CHANGELOG.md'
  const [ARCHITECTURE, CLIENT] = ['src/README.md', 'clients/typescript/README.md']
  const rows: [document: string, words: string, answer: unknown, expected: unknown][] = [
    [ARCHITECTURE, 'A replacing report keeps `id` and `created_at`;', again.json.id, json.id],
    [ARCHITECTURE, 'nothing is trimmed, normalized or truncated.', json.context, ' a '],
    [ARCHITECTURE, '`null` is not a missing value.', missing.status, 422],
    [ARCHITECTURE, '**No CORS headers,', read.headers.get('access-control-allow-origin'), null],
    [
      ARCHITECTURE,
      '`updated_at` never goes back, even if the clock does.',
      (earlier.json.updated_at ?? '') >= (again.json.updated_at ?? 'z'),
      true,
    ],
    [
      ARCHITECTURE,
      'a tag or tree is not a commit, and a branch named like an id never shadows it.',
      [
        (await server.report('acme/rocket', pushed, given, token)).status,
        (await server.report('acme/rocket', shadowing, given, token)).status,
      ],
      [404, 404],
    ],
    [
      ARCHITECTURE,
      'Contexts are ordered by code points on every database.',
      statuses?.map(({ context }) => context),
      ['B', 'b', '\ufffd', '\u{1f600}'],
    ],
    [ARCHITECTURE, 'Anonymous requests are never blocked.', blocked, [401, 429, 200]],
    [
      ARCHITECTURE,
      '**Connections are limited to half of the open files, and to an eighth for one address**',
      defaultConnectionLimits(),
      { total: Math.floor(files / 2), perClient: Math.floor(files / 8) },
    ],
    [ARCHITECTURE, 'Passwords use Argon2id.', (await hashPassword('a')).split('$')[1], 'argon2id'],
    [
      'README.md',
      'lets commits into `main` only if this check is `success`',
      verdicts,
      ['success', 'failure', 'pending'],
    ],
    [
      REFERENCE,
      'The page of a commit shows failures first',
      page.body.match(/(?<=<bdi>)[zB](?=<)/g)?.slice(0, 2),
      ['z', 'B'],
    ],
    [CLIENT, 'the API has no CORS headers', read.headers.get('access-control-allow-origin'), null],
    [ARCHITECTURE, 'IPv6 addresses count by /64.', addressKey('2001:db8::1'), addressKey('2001:db8::ffff')],
    [ARCHITECTURE, '**Tokens are hashed with SHA-256**, unsalted', hashToken('a'), hash('sha256', 'a')],
    ['README.md', 'with one combined state per commit', [status, read.json.state], [201, 'failure']],
    [
      CLIENT,
      'the answers 429 (after its `Retry-After`), 502, 503 and 504 are retried',
      RETRIED,
      [429, 502, 503, 504],
    ],
    [CLIENT, 'a random pause of up to 8 seconds', LONGEST_PAUSE, 8_000],
    [
      'README.md',
      `| states of a status | ${schemas.State.enum.join(', ')} |`,
      schemas.State.enum.length,
      new Set(schemas.State.enum).size,
    ],
    [ARCHITECTURE, '**No CORS headers, no cookies in the API.**', asCookie.status, 401],
    [
      ARCHITECTURE,
      'so that all processes share one budget and a restart does not reset it.',
      (await restarted.read('acme/rocket', asked.commits[0] ?? '', 'wrong')).status,
      429,
    ],
    [
      ARCHITECTURE,
      'So a commit once reported on stays readable after a garbage collection',
      [
        (await server.read('acme/lander', kept.commits[1] ?? '')).status,
        gitWith(kept.path, kept.commits[1] ?? '', 'cat-file', '--batch-check').includes('missing'),
      ],
      [200, true],
    ],
    [ARCHITECTURE, 'and an id is never used again', recreated.id > gone.id, true],
    [
      ARCHITECTURE,
      'an empty list and no list never look alike.',
      (await server.report('acme/gone', recreated.commits[0] ?? '', given, limited)).status,
      403,
    ],
    [
      ARCHITECTURE,
      '**No request is held.**',
      [held.status, performance.now() - started < 20_000],
      [304, true],
    ],
    [
      GUIDE,
      'In branch and context patterns `*` stands for any characters, `/` included.',
      [matchesPattern('ci/*', 'ci/a/b'), refMatcher('release/*')('refs/heads/release/1/2')],
      [true, true],
    ],
    [
      GUIDE,
      'All rules whose pattern matches a branch apply together.',
      requiredBy(rulesOfRef(rules, 'refs/heads/release/1/2')),
      ['ci/a', 'ci/b'],
    ],
    [
      GUIDE,
      'Upper and lower case differ in patterns, as in names of refs.',
      requiredBy(rulesOfRef(rules, 'refs/heads/Release/1')),
      ['ci/c'],
    ],
    [
      GUIDE,
      'A renamed or moved repository keeps its statuses, rules, access and the tokens limited to it.',
      [renamed.status, renamed.json.statuses?.length],
      [200, 1],
    ],
    [CLIENT, 'Reporting never breaks or blocks a build.', job.status, 3],
    [CLIENT, 'The command does not get `COMMIT_STATUS_TOKEN`,', job.stdout, '<>\n'],
    [CLIENT, 'never an argument, never printed', job.stderr.includes(token), false],
    [
      REFERENCE,
      'Git LFS is not supported',
      (await server.call('POST', '/acme/rocket.git/info/lfs/objects/batch')).status >= 400,
      true,
    ],
    ['clients/typescript/SKILL.md', 'Other checks do not count.', await verdictOf('success'), 'success'],
    [
      CHANGELOG,
      'As of version 1.3.0, `getVerdict` refuses unknown query parameters with 422,',
      unknown.status,
      422,
    ],
  ]
  t.equal(headers.get('content-type'), 'application/json; charset=utf-8')
  for (const [document, words, answer, expected] of rows) {
    t.ok(sentencesOf(document).includes(words), `${document}: ${words}`)
    t.same(answer, expected, words)
  }
})

test("operator's guide: variables and commands are those of the programs", async (t) => {
  const guide = readDocument(GUIDE)
  t.strictSame(tableAfter(guide, '| variable | default | meaning |\n| --- | --- | --- |\n'), variableRows())
  t.strictSame(tableAfter(guide, '| command | meaning |\n| --- | --- |\n'), commandRows())

  const known = [
    ...describeVariables().map(({ name }) => name),
    'NODE_ENV',
    'NODE_OPTIONS',
    'NODE_EXTRA_CA_CERTS',
    ...['NODE_USE_ENV_PROXY', 'HTTPS_PROXY', 'NO_PROXY'],
    'BASE_URL',
    // Of the client and of the commands that a worker runs.
    ...['COMMIT_STATUS_URL', 'COMMIT_STATUS_TOKEN', 'COMMIT_STATUS_RUN'],
    ...['COMMIT_STATUS_SHA', 'COMMIT_STATUS_BRANCH'],
    // The guide's example of another program's variable.
    'DATABASE_URI',
    // Not variables of the environment.
    'ON_ERROR_STOP',
    'O_EXCL',
  ]
  for (const path of [GUIDE, 'README.md', 'src/README.md', 'openapi.yaml']) {
    const names = readDocument(path).match(/\b[A-Z]+(_[A-Z]+)+\b/g) ?? []
    t.same(
      names.filter((name) => !known.includes(name) && !/^(CAP|AF)_/.test(name)),
      [],
      path,
    )
  }
})

test("operator's guide: the settings for each provider are complete", async (t) => {
  const [, ...sections] = readDocument(GUIDE).split(/^####? /m)
  for (const name of ['Keycloak', 'authentik', 'Entra ID', 'Okta', 'GitLab', 'Google', 'Dex']) {
    const section = sections.find((text) => text.startsWith(`${name}\n`)) ?? ''
    const settings = [...section.matchAll(/`(OIDC_\w+)=([^`]+)`/g)].map(([, key, value]) => [key, value])
    const PUBLIC_URL = 'https://status.example.org'
    // The file is not on this machine.
    const environment = { ...Object.fromEntries(settings), PUBLIC_URL, OIDC_CLIENT_SECRET_FILE: '' }
    const { oidc } = readConfig(environment)
    t.match(oidc, { issuer: /^https:/, clientId: /./, requiredClaim: { name: /./, value: /./ } }, name)
    t.ok(section.trim().split('\n').length <= 14, `${name} in few lines`)
  }
})

test("operator's guide: each block is followed by the soak `operators`, or left to another proof", async (t) => {
  const blocks: Record<string, readonly unknown[]> = BLOCKS
  const found = blocksByHeading()
  t.same([...found.keys()], Object.keys(blocks))
  for (const [heading, { length }] of found) t.equal(blocks[heading]?.length, length, heading)
})

/** Returns what is written as code in one column of a table. */
function namesIn(rows: string[] | undefined, column: number): string[] {
  const cells = (rows ?? []).map((row) => row.split(' | ')[column] ?? '')
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name))
}

/**
 * Returns the numbers in descriptions that are none of their schemas', by name. Code, lists and
 * names of standards aside.
 */
function foreignNumbers(value: Json | undefined, name = '', found: Record<string, string[]> = {}) {
  if (Array.isArray(value)) for (const item of value) foreignNumbers(item, name, found)
  if (!isObject(value)) return found
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'examples') continue
    if (key !== 'description' || typeof inner !== 'string') {
      foreignNumbers(inner, key, found)
      continue
    }
    const prose = inner.replace(
      /```[\s\S]*?```|`[^`]*`|^\s*\d+\. |\bsteps? \d(?: to \d)?|\d{4}-\d\d-\d\d|UTF-8|UUIDv\d|SHA-\d+|U\+\d+/gm,
      '',
    )
    const own = numbersOf(value)
    const foreign = (prose.match(/\d+(?:,\d{3})*/g) ?? []).filter((number) => !own.includes(number))
    if (foreign.length > 0) found[name] = foreign
  }
  return found
}

/** Returns the limits and lengths that a schema, or the schema of what is given, sets. */
function numbersOf(holder: JsonObject): string[] {
  return Object.entries(holder).flatMap(([key, value]) => {
    if (key === 'schema' || key === 'items') return numbersOf(resolve(document, value))
    if (key === 'oneOf') return list(value).flatMap((each) => numbersOf(resolve(document, each)))
    if (key === 'pattern') return text(value, key).match(/(?<=\{)\d+(?=\})/g) ?? []
    return typeof value === 'number' && /^(min|max|x-max|x-body-limit)/.test(key)
      ? [`${value}`, value.toLocaleString('en')]
      : []
  })
}
