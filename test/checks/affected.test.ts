import t from 'tap'
import { TestIndex } from './affected-tests.ts'

/** Files that few tests are about. */
const LEAVES = ['store/owners/groups.ts', 'web/pages/tokens/tokens-page.ts', 'git/refs/head.ts']

const index = new TestIndex()
// Without `src` and `test`, so that this file does not name what it would then depend on.
const testsOf = (file: string, lines = '') =>
  index.testsOf({ file: `src/${file}`, lines }).map((test) => test.replace('test/', ''))

t.test('tests that reach a file only through a running program belong to it', async (t) => {
  for (const [file, test] of [
    ['auth/password.ts', 'web/sign-in.test.ts'],
    ['auth/password-rules.ts', 'cli/account-commands.test.ts'],
    ['http/server.ts', 'http/pipelining.test.ts'],
    ['app.ts', 'ops/overload.test.ts'],
    ['server.ts', 'server.test.ts'],
    ['git/history/log.ts', 'web/repository.test.ts'],
    ['cli/commands/token.ts', 'cli/account-commands.test.ts'],
    ['store/owners/groups.ts', 'auth/matrix.test.ts'],
    ['web/pages/tokens/tokens-page.ts', 'web/token-form.test.ts'],
  ] as const)
    t.ok(testsOf(file).includes(test), `${file}: ${test}`)
  t.equal(testsOf('util/duration.ts')[0], 'util/duration.test.ts', 'the nearest first')
})

t.test('few tests belong to a file that few tests import', async (t) => {
  for (const file of LEAVES) t.ok(testsOf(file).length <= 40, file)
})

t.test('what is changed in a file decides which of its tests are the nearest', async (t) => {
  const file = 'git-http/run.ts'
  const gauge = "addGauge('commit_status_disk_free_bytes', 'Free bytes on the disk of the repositories.')"
  t.ok(testsOf(file, gauge).includes('ops/metrics.test.ts'))
  t.notOk(testsOf(file).includes('ops/metrics.test.ts'))
})

t.test('all tests that use a helper belong to it, also by way of other helpers', async (t) => {
  const using = index.testsOf({ file: 'test/helpers/records.ts', lines: '' })
  t.ok(using.length > 80)
  for (const test of ['test/store/statuses.test.ts', 'test/api/statuses.test.ts'])
    t.ok(using.includes(test), test)
})
