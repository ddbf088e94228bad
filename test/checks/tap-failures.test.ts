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
  t.match(failuresOf(CRASHED, 6), [/^test\/d\.test\.ts: ended with 7 and no failed test/])
  const killed = CRASHED.replace('exitCode: 7', 'exitCode: null\n  signal: SIGKILL')
  t.match(failuresOf(killed, 6), [/: ended with SIGKILL /])
  t.same(failuresOf(NOT_LOADED, 6), [
    'test/a.test.ts unhandled error\n  code: 2\n  signal: null\n  stderr: |\n    no such file',
    'test/e.test.ts no such export\n  type: SyntaxError',
  ])
  t.same(failuresOf('# Subtest: test/e.test.ts\n    ok 1 - fine\nok 1 - test/e.test.ts\n', 6), [])
})
