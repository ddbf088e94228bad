import { ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { queryObjects } from 'node:v8'
import t from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { git } from '../../../../test/helpers/git.ts'
import { startServer } from '../../../../test/helpers/server.ts'
import { eventually, openWorkPlace } from '../helpers/working.ts'

const server = await startServer(t)
const place = await openWorkPlace(t, server, 'acme/rocket')
const { push, work, result, path, folder } = place
/** Seconds since the epoch of a commit that is too old. */
const LONG_AGO = 1_700_000_000
t.setTimeout(600_000)

t.test('each newest commit without a result is run once, and reported', async (t) => {
  const script =
    'echo "$CI $COMMIT_STATUS_BRANCH $COMMIT_STATUS_SHA <$COMMIT_STATUS_TOKEN> $(git log --oneline | wc -l)"'
  const sha = push('main', script)
  git(path, 'branch', 'same', sha)
  push('topic', 'exit 3')
  const first = await work(['--once']).finished
  t.equal(first.code, 1, first.stderr)
  t.equal(first.stdout, `true main ${sha} <> 1\n`, 'one run of a commit that two branches have')
  t.match(await result(sha), /^success: passed in /)
  t.match(await result(git(path, 'rev-parse', 'topic')), /^failure: exit code 3 after /)
  t.strictSame(place.jobs(), [], 'checkouts are removed')

  const second = await work(['--once']).finished
  t.match(second, { code: 0, stdout: '', stderr: '' }, 'nothing is to do')
  const next = push('main', script)
  t.equal((await work(['--once']).finished).code, 0)
  t.match(await result(next), /^success/, 'a later commit, from the cache')
})

t.test('an old commit is left alone until somebody asks for it', async (t) => {
  const sha = push('old', 'true', { at: LONG_AGO })
  const first = await work(['--once']).finished
  t.match(first, {
    code: 0,
    stderr: `acme/rocket: left alone, since it is older than --max-age: ${sha} of old`,
  })
  t.equal(await result(sha), undefined)
  await place.request(sha)
  t.equal((await work(['--once']).finished).code, 0)
  t.match(await result(sha), /^success/)
  const other = push('old', 'true', { at: LONG_AGO })
  t.equal((await work(['--once', '--max-age', '30000d']).finished).code, 0)
  t.match(await result(other), /^success/)
})

t.test('an old commit is run when it is landed', async (t) => {
  const sha = push('old', 'true', { at: LONG_AGO })
  const worker = work()
  await worker.printed(`older than --max-age: ${sha} of old`)
  git(path, 'update-ref', `refs/heads/land/main/${sha.slice(0, 12)}`, sha)
  t.match(await place.settled(sha), /^success/)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

t.test('only branches that match', async (t) => {
  const [one, two] = [push('release/1', 'true'), push('other', 'true')]
  t.equal((await work(['--once', '--match', 'release/*']).finished).code, 0)
  t.match([await result(one), await result(two)], [/^success/, undefined])
  await work(['--once']).finished
})

t.test(
  'output goes to the terminal with the name of the job, and to logs that are kept for a while',
  async (t) => {
    const logs = join(temporaryFolder(t), 'logs')
    const options = [
      '--once',
      '--jobs',
      '2',
      '--logs',
      logs,
      '--keep',
      '2',
      '--log-url',
      'https://logs.test/a/{log}?x',
    ]
    const script = "printf 'one\\n\\033[31mred\\033[0m \\033]0;title\\007 two'; echo problem >&2"
    const sha = push('main', script)
    const { stdout, stderr } = await work(options).finished
    const name = `acme/rocket main ${sha.slice(0, 10)}`
    t.equal(stdout, `${name} | one\n${name} | red  ]0;title  two\n`)
    t.match(stderr, `${name} | problem\n`)
    const answer = await server.read('acme/rocket', sha)
    const [, file = ''] =
      /^https:\/\/logs\.test\/a\/(.*)\?x$/.exec(answer.json.statuses?.[0]?.target_url ?? '') ?? []
    const log = readFileSync(join(logs, file), 'utf8')
    t.match(log, 'one\n\x1b[31mred\x1b[0m \x1b]0;title\x07 two', 'as it was written')
    t.match(log, 'problem\n')
    for (let count = 0; count < 3; count++) {
      push('main', 'true')
      await work(options).finished
    }
    t.equal(readdirSync(join(logs, 'acme/rocket')).length, 2)
  },
)

t.test('JUnit files of the checkout describe the result', async (t) => {
  const xml = '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>'
  const sha = push('main', `echo '${xml}' > report.xml; exit 1`)
  await work(['--once', '--junit', 'report.xml', 'missing.xml']).finished
  t.equal(await result(sha), 'failure: 1 of 2 failed: b')
})

t.test('a command that cannot be started, or that a signal kills', async (t) => {
  const sha = push('main', 'kill -9 $$')
  await work(['--once']).finished
  t.match(await result(sha), /^error: killed by SIGKILL after /)
  const other = push('main', '')
  await work(['--once'], { command: ['./missing.sh'] }).finished
  t.equal(await result(other), 'error: could not be started: no such command or file (ENOENT)')
})

t.test('--once tells whether a command has failed, the first or the last one', async (t) => {
  for (const [one, two] of [
    ['exit 1', 'true'],
    ['true', 'exit 1'],
  ] as const) {
    push('ends/1', one)
    push('ends/2', two)
    t.equal((await work(['--once']).finished).code, 1)
  }
})

t.test('many branches, on several pages', async (t) => {
  const shas = Array.from({ length: 40 }, (_, index) => push(`many/${index}`, 'true'))
  t.equal((await work(['--once', '--jobs', '4']).finished).code, 0)
  const results = await Promise.all(shas.map((sha) => result(sha)))
  t.ok(results.every((each) => each?.startsWith('success')))
})

t.test('nothing is kept of jobs that have ended', async (t) => {
  const worker = work()
  const run = async (count: number) => {
    const shas = Array.from({ length: count }, (_, index) => push(`kept/${index}`, 'true'))
    for (const sha of shas) t.match(await place.settled(sha), /^success/)
    return queryObjects(ChildProcess, { format: 'count' })
  }
  const before = await run(1)
  t.ok((await run(5)) - before < 4)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

t.test('SHA-256', async (t) => {
  const repository = await server.createRepository('acme/long', { objectFormat: 'sha256', commits: 1 })
  const sha = repository.commits[0] ?? ''
  const { code, stdout } = await work(['--repo', 'acme/long', '--once'], {
    command: ['git', 'rev-parse', 'HEAD'],
  }).finished
  t.equal(code, 0)
  t.match(stdout, sha)
})

t.test('a private repository', async (t) => {
  await server.createRepository('acme/secret', { private: true, commits: 1 })
  const command = ['sh', '-c', 'git config --get remote.origin.url; git fetch 2>&1 | head -n 1']
  const { code, stdout } = await work(['--repo', 'acme/secret', '--once'], { command }).finished
  t.equal(code, 0)
  t.match(stdout, '/acme/secret.git')
  const cached = readFileSync(join(folder, 'cache/acme+secret.git/config'), 'utf8')
  t.notMatch(cached + stdout, place.token)
})

t.test('what cannot be fetched three times becomes an error with the words of git', async (t) => {
  const sha = push('broken', 'true')
  const blob = git(path, 'rev-parse', `${sha}:ci.sh`)
  rmSync(join(path, 'objects', blob.slice(0, 2), blob.slice(2)))
  const { code, stderr } = await work(['--once']).finished
  t.equal(code, 1)
  t.equal(stderr.match(/cannot be fetched: /g)?.length, 2)
  t.match(
    await result(sha),
    /^error: .*(?:unable to read|not our ref|bad object|upload-pack|expected 'packfile')/,
  )
})

t.test('a damaged cache is fetched anew', async (t) => {
  const other = await openWorkPlace(t, server, 'acme/cached')
  const around = join(other.folder, '..')
  git(around, 'init', '--quiet')
  const cache = join(other.folder, 'cache/acme+cached.git')
  const files = { 'same.txt': { text: 'the same in each commit' } }
  const filesBelow = (name: string) =>
    readdirSync(join(cache, name), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
  const empty = (paths: readonly string[]) => {
    for (const file of paths) {
      rmSync(file)
      writeFileSync(file, '')
    }
  }
  const damages: Record<string, (blob: string) => void> = {
    nothing: () => {},
    'an object that only the checkout needs': (blob) =>
      empty([join(cache, 'objects', blob.slice(0, 2), blob.slice(2))]),
    'objects of a power cut': () => empty(filesBelow('objects')),
    'no HEAD, in a folder of another repository': () => empty([join(cache, 'HEAD')]),
    'refs of a power cut': () => empty(filesBelow('refs/tips')),
    'a lock of a git that was killed': () => {
      for (const ref of filesBelow('refs/tips')) writeFileSync(`${ref}.lock`, '')
    },
    'no repository': () => {
      rmSync(cache, { recursive: true })
      writeFileSync(cache, '')
    },
  }
  let blob = ''
  for (const [name, damage] of Object.entries(damages)) {
    if (blob !== '') damage(blob)
    const sha = other.push('main', 'test "$(cat same.txt)" = "the same in each commit"', { files })
    blob = git(other.path, 'rev-parse', `${sha}:same.txt`)
    const { code, stderr } = await other.work(['--once']).finished
    t.equal(code, 0, `${name}: ${stderr}`)
    t.match(await other.result(sha), /^success/)
    t.notMatch(stderr, 'cannot be fetched')
    t.strictSame(readdirSync(join(other.folder, 'cache')), ['acme+cached.git'])
    t.equal(git(around, 'for-each-ref'), '')
  }
})

t.test('a cache without damage stays, whatever fails', async (t) => {
  const other = await openWorkPlace(t, server, 'acme/kept')
  other.push('main', 'true')
  t.equal((await other.work(['--once']).finished).code, 0)
  const cacheId = () => statSync(join(other.folder, 'cache/acme+kept.git')).ino
  const before = cacheId()

  const answered = Promise.withResolvers<void>()
  other.proxy.always(/^POST .*git-upload-pack/, { status: 503, heldUntil: answered.promise })
  const refused = other.push('main', 'true')
  const worker = other.work(['--once'])
  await eventually(() => other.proxy.passages.at(-1)?.url.endsWith('/git-upload-pack') === true)
  other.proxy.always(/^POST .*git-upload-pack/, 'pass')
  answered.resolve()
  t.match(await worker.finished, { code: 0, stderr: /cannot be fetched: / })
  t.match(await other.result(refused), /^success/)
  t.equal(cacheId(), before, 'a server that is overloaded for a moment')

  for (const file of ['x'.repeat(300), '.git/config', 'a/.git/config']) {
    const sha = other.push('main', 'true', { files: { [file]: { text: 'x' } } })
    t.equal((await other.work(['--once']).finished).code, 1)
    t.match(await other.result(sha), /^error: /)
    t.equal(cacheId(), before, file)
  }
})

t.test('what a damaged cache had is fetched with the next branch, into the same new one', async (t) => {
  const other = await openWorkPlace(t, server, 'acme/branches')
  const cache = join(other.folder, 'cache/acme+branches.git')
  const script = `test -e "$DAMAGED" && exec stat -c %i ${cache}; touch "$DAMAGED"; rm -r ${cache}/objects/*`
  for (const branch of ['one', 'two', 'three']) other.push(branch, script)
  const env = { DAMAGED: join(temporaryFolder(t), 'damaged') }
  const { code, stdout, stderr } = await other.work(['--once'], { env }).finished
  t.equal(code, 0, stderr)
  const [second, third, ...rest] = stdout.trim().split('\n')
  t.strictSame([third, rest], [second, []])
})
