import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { git } from '../../../../test/helpers/git.ts'
import { readJunit } from '../../src/cli/junit.ts'
import { call, commandLine } from '../helpers/command-line.ts'
import { startService } from '../helpers/service.ts'

const folder = mkdtempSync(join(tmpdir(), 'junit-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const passed = '<testcase name="fine" classname="a"/>'
const skipped = '<testcase name="not now"><skipped/></testcase>'
const failed = (name: string) =>
  `<testcase name="${name}"><failure message="no"><![CDATA[<error>]]></failure></testcase>`

function write(name: string, cases: string, head = '<?xml version="1.0"?>'): string {
  const file = join(folder, name)
  writeFileSync(file, `${head}<testsuites><testsuite>${cases}</testsuite></testsuites>`)
  return file
}

t.test('counts the tests of all files, and names as many as fit', async (t) => {
  const describe = async (...files: string[]) => (await readJunit(files))?.description
  t.equal(await describe(write('a.xml', passed.repeat(3) + skipped)), '3 passed')
  const errors = write('b.xml', `${failed('x &amp; y')}<testcase name="z"><error/></testcase>${passed}`)
  t.equal(await describe(join(folder, 'a.xml'), errors), '2 of 6 failed: x & y, z')
  const teardown = (name: string) =>
    `<testcase name="${name}"><error message="failed on teardown with &quot;no&quot;">e</error></testcase>`
  const torn = write('torn.xml', failed('one') + passed + teardown('one') + teardown('two') + failed('one'))
  t.equal(await describe(torn), '3 of 4 failed: one, two, one', 'a test that fails twice is one')
  const prefixed = write(
    'prefixed.xml',
    '<j:testcase name="one"><j:failure/></j:testcase><j:testcase name="two"><j:skipped/></j:testcase>',
  )
  t.equal(await describe(prefixed), '1 of 1 failed: one')
  const many = Array.from({ length: 53 }, (_, index) => failed(`${'n'.repeat(40)}${index}`))
  const text = (await describe(write('c.xml', many.join('') + passed.repeat(361)))) ?? ''
  t.match(text, /^53 of 414 failed: (n{40}\d+, )+and (\d+) more$/)
  t.ok(text.length <= 1024 && text.length > 1024 - 45, `${text.length} characters`)
  t.equal(text.match(/n{40}\d+,/g)?.length, 53 - Number(/\d+(?= more)/.exec(text)?.[0]))
  t.equal(await describe(write('d.xml', failed('𝒏'.repeat(1100)))), '1 of 1 failed')
  const long = '𝒏'.repeat(1000)
  t.equal(await describe(write('e.xml', failed(long))), `1 of 1 failed: ${long}`, 'in code points')
})

t.test(
  'a file is older than the run only by more than two seconds, to which file systems round',
  async (t) => {
    const file = write('rounded.xml', passed)
    utimesSync(file, 1_700_000_000, 1_700_000_000)
    t.match(await readJunit([file], 1_700_000_000_000 + 2_000), { description: '1 passed' })
    t.equal(await readJunit([file], 1_700_000_000_000 + 2_001), undefined)
  },
)

t.test('warns of what cannot be read, and changes neither state nor exit code', async (t) => {
  const { server, token, commit } = await startService(t)
  const env = {
    PATH: process.env.PATH ?? '',
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_TOKEN: token,
  }
  const fixed = ['--repo', 'acme/rocket', '--sha', commit.sha, '--context', 'c']
  const stored = async () => (await server.read('acme/rocket', commit.sha)).json.statuses?.[0]
  const good = write('good.xml', failed('one') + passed)
  const bad = [
    join(folder, 'absent.xml'),
    folder,
    write('cut.xml', '<testcase'),
    write('doctype.xml', passed, '<!DOCTYPE a [<!ENTITY e "x">]>'),
  ]
  const report = ['report', ...fixed, '--state', 'success', '--description', 'as given', '--junit']
  const { code, stderr } = await call([...report, ...bad], env)
  t.equal(code, 0)
  t.match(
    stderr,
    /absent.xml is left out: ENOENT.*\n.*left out: EISDIR.*\n.*cut.xml is left out.*\n.*doctype.xml is left out: it has a DOCTYPE\n$/,
  )
  t.match(await stored(), { state: 'success', description: 'as given' })
  t.match(await call([...report, ...bad, good], env), { code: 0 })
  t.match(await stored(), { state: 'success', description: '1 of 2 failed: one' })
  t.match(await call(['report', ...fixed, '--state', 'success', 'word'], env), { code: 2 })

  const run = (words: string[], ...command: string[]) =>
    call(['run', ...fixed, ...words, '--', ...command], env)
  const fresh = join(folder, 'fresh.xml')
  const script = (text: string, exit: number) => [
    'sh',
    '-c',
    `echo '<a>${text}</a>' > ${fresh}; exit ${exit}`,
  ]
  t.match(await run(['--junit', fresh], ...script(failed('two'), 3)), { code: 3, stderr: '' })
  t.match(await stored(), { state: 'failure', description: '1 of 1 failed: two' })
  t.match(await run(['--junit', fresh], ...script(passed, 3)), { code: 3 })
  t.match(
    await stored(),
    { state: 'failure', description: /^exit code 3 after/ },
    'no test failed, but something did',
  )
  utimesSync(good, 1, 1)
  t.match(await run(['--junit', good, bad[0] ?? ''], 'true'), {
    code: 0,
    stderr: /older than this run[\s\S]*ENOENT/,
  })
  t.match(await stored(), { state: 'success', description: /^passed in/ })
})

t.test('run --clean refuses a checkout that is not the commit, before the command runs', async (t) => {
  const { server, token, path } = await startService(t, { commits: 2 })
  const cwd = join(folder, 'checkout')
  git(folder, 'clone', '--quiet', path, cwd)
  const env = { COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const run = (...args: string[]) =>
    commandLine(
      t,
      ['run', '--clean', '--repo', 'acme/rocket', '--context', 'c', ...args, '--', 'echo', 'ran'],
      {
        env,
        cwd,
      },
    ).finished
  t.match(await run(), { code: 0, stdout: 'ran\n' })
  t.match(await run('--sha', 'HEAD~1'), {
    code: 2,
    stdout: '',
    stderr: /the checkout is at \w+, not at HEAD~1/,
  })
  writeFileSync(join(cwd, 'untracked'), '')
  git(cwd, 'config', 'status.showUntrackedFiles', 'no')
  t.match(await run(), {
    code: 2,
    stdout: '',
    stderr: /--clean: commit or remove what differs from \w+: \?\? untracked/,
  })

  // git runs a filter to compare a file with another time than it knows.
  git(cwd, 'add', 'untracked')
  git(cwd, '-c', 'user.name=Ann', '-c', 'user.email=ann@example.org', 'commit', '--quiet', '--message', 'Add')
  const environment = join(folder, 'environment')
  writeFileSync(join(cwd, '.git/info/attributes'), '* filter=spy\n')
  git(cwd, 'config', 'filter.spy.clean', `env > ${environment}; cat`)
  utimesSync(join(cwd, 'untracked'), 1, 1)
  t.match(await run(), { code: 0, stdout: 'ran\n' })
  t.match(readFileSync(environment, 'utf8'), `COMMIT_STATUS_URL=${server.url}`)
  t.notMatch(readFileSync(environment, 'utf8'), token, 'filters get no token')
})
