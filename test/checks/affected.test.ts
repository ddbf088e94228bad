import t from 'tap'
import { affectedTests } from '../affected.ts'

t.test('tests that reach a file only through a running program belong to it', async (t) => {
  // Without `src` and `test`, so that this file does not name what it would then depend on.
  const testsOf = (file: string) => affectedTests([`src/${file}`]).map((test) => test.replace('test/', ''))
  for (const [file, test] of [
    ['auth/password.ts', 'web/sign-in.test.ts'],
    ['auth/password-rules.ts', 'cli/account-commands.test.ts'],
    ['http/server.ts', 'api/errors.test.ts'],
    ['http/server.ts', 'web/pages.test.ts'],
    ['app.ts', 'auth/budget.test.ts'],
    ['server.ts', 'server.test.ts'],
    ['git/history/log.ts', 'web/repository.test.ts'],
    ['cli/commands/token.ts', 'cli/account-commands.test.ts'],
  ] as const)
    t.ok(testsOf(file).includes(test), `${file}: ${test}`)
  t.equal(testsOf('util/duration.ts')[0], 'util/duration.test.ts', 'the nearest first')
})
