import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { failuresOf } from '../helpers/tap-failures.ts'

const FAILED = `# Subtest: test/a.test.ts test/b.test.ts
    # Subtest: test/b.test.ts
        # Subtest: outer
            # Subtest: inner
                ok 1 - fine
                not ok 2 - the same
                  ---
                  diff: |
                    -  "a": 2,
                    +  "a": 1,
                  at:
                    fileName: test/b.test.ts
                    lineNumber: 4
                  source: |
                    t.same(1, 2)
                  ...
            not ok 1 - inner # time=1ms
              ---
              at:
                fileName: test/b.test.ts
                lineNumber: 3
              ...
        not ok 1 - outer # time=2ms
    not ok 2 - test/b.test.ts # time=2ms
not ok 1 - test/a.test.ts test/b.test.ts # time=3ms
`
const HUNG = `# Subtest: test/a.test.ts test/c.test.ts
    # Subtest: test/c.test.ts
        # Subtest: waits
            not ok 1 - timeout!
              ---
              expired: TAP
              ...
        not ok 1 - waits # time=9ms
    not ok 2 - test/c.test.ts # time=9ms
not ok 1 - test/a.test.ts test/c.test.ts # time=9ms
`
const NOT_ENDED = `# Subtest: test/a.test.ts test/c.test.ts
    # Subtest: test/c.test.ts
        ok 1 - fine
    ok 2 - test/c.test.ts # time=9ms
    not ok 3 - timeout!
      ---
      expired: TAP
      ...
not ok 1 - test/a.test.ts test/c.test.ts # time=9ms
`
const KILLED = `# Subtest: test/e.test.ts
    ok 1 - fine
ok 1 - test/e.test.ts # time=9ms
not ok 2 - timeout!
  ---
  expired: test/a.test.ts test/c.test.ts
  ...
`
const CRASHED = `# Subtest: test/a.test.ts test/d.test.ts
    # Subtest: test/d.test.ts
        1..0
    ok 2 - test/d.test.ts # time=9ms
    1..2
not ok 1 - test/a.test.ts test/d.test.ts # time=3ms
  ---
  exitCode: 7
  ...
`
const NOT_LOADED = `# Subtest: test/a.test.ts test/e.test.ts
    # Subtest: test/a.test.ts
        not ok 1 - unhandled error
          ---
          code: 2
          signal: null
          stderr: |
            no such file
          tapCaught: returnedPromiseRejection
          ...
    not ok 1 - test/a.test.ts # time=9ms
    # Subtest: test/e.test.ts
        not ok 1 - no such export
          ---
          at:
            fileName: test/run-together.ts
            lineNumber: 37
          type: SyntaxError
          ...
    not ok 2 - test/e.test.ts # time=9ms
not ok 1 - test/a.test.ts test/e.test.ts # time=9ms
`

t.test('a failed run ends with its failures', async (t) => {
  t.same(failuresOf(FAILED, 6), [
    'test/b.test.ts:4 outer › inner › the same\n  diff: |\n    -  "a": 2,\n    +  "a": 1,',
  ])
  t.same(failuresOf(HUNG, 6), ['test/c.test.ts: still running after 6 s: waits'])
  t.same(failuresOf(NOT_ENDED, 6), ['test/c.test.ts: not ended after 6 s'])
  t.same(failuresOf(KILLED, 6), ['test/a.test.ts test/c.test.ts: not ended after 6 s'])
  t.match(failuresOf(CRASHED, 6), [/^test\/d\.test\.ts: ended with 7 and no failed test/])
  const killed = CRASHED.replace('exitCode: 7', 'exitCode: null\n  signal: SIGKILL')
  t.match(failuresOf(killed, 6), [/: ended with SIGKILL /])
  t.same(failuresOf(NOT_LOADED, 6), [
    'test/a.test.ts unhandled error\n  code: 2\n  signal: null\n  stderr: |\n    no such file',
    'test/e.test.ts no such export\n  type: SyntaxError',
  ])
  t.same(failuresOf('# Subtest: test/e.test.ts\n    ok 1 - fine\nok 1 - test/e.test.ts\n', 6), [])
})

t.test('no failure is lost behind a line separator', async (t) => {
  const helpers = join(import.meta.dirname, '../helpers')
  const program = [join(helpers, '../run-together.ts'), 'test/checks/fixtures/separators.ts']
  const hooks = ['--import', join(helpers, 'tap-hooks.ts')]
  const { stdout } = spawnSync(process.execPath, [...hooks, ...program], {
    encoding: 'utf8',
    env: { ...process.env, TAP_TIMEOUT: '60', TEST_TIMES: '/dev/null' },
  })
  const [found = '', ...others] = failuresOf(stdout, 60)
  t.match(found, /separators\.ts:4 found\n[\s\S]*\+a\\u2028b\\u2029c$/)
  const file = 'test/checks/fixtures/separators.ts'
  t.same(others, [`${file}:5 named a\\u2028b`, `${file}:6 after`])
})
