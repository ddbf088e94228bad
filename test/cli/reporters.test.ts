import { rmSync } from 'node:fs'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { databases } from '../helpers/databases.ts'
import { createAccount } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const NAME = { owner: 'acme', name: 'rocket' }

for (const database of databases)
  t.test(`${database.name}: repo reporters lists, sets and removes who may report`, async (t) => {
    const server = await startServer(t, { database })
    const { store, options } = server
    const write = asAdministrator(store)
    const environment = {
      DATA_DIR: options.dataDir,
      ...(options.databaseUrl && { DATABASE_URL: options.databaseUrl }),
    }
    const cli = (...args: string[]) => runCli(['repo', 'reporters', 'acme/rocket', ...args], environment)
    const { id, path, commits } = await server.createRepository('acme/rocket', { commits: 31 })
    const [oldest = ''] = commits
    const newest = commits.at(-1) ?? ''
    for (const name of ['ci-bot', 'writer', 'reader'])
      await write.collaborators.set(
        NAME,
        await createAccount(server, name),
        name === 'reader' ? 'read' : 'write',
      )
    await write.groups.create('staff')
    const writer = await server.createToken('writer')
    for (const sha of [newest, oldest])
      for (const context of ['ci/all', `ci/it's \u202e`, 'lint'])
        await server.report('acme/rocket', sha, { context, state: 'success' }, writer)

    t.match(await cli(), { code: 0, stdout: '', stderr: 'Everybody who may write reports any context.\n' })
    t.match(await cli('ci/*', 'ci-bot', 'reader'), {
      code: 0,
      stdout: '',
      stderr: 'warning: reader cannot report: without write access, or locked\n',
    })
    await write.rules.set(NAME, { refPattern: 'main', required: ['ci/all'], bypass: [] })
    const { stderr } = await cli('ci/*', 'ci-bot')
    const [note, ...commands] = stderr.trimEnd().split('\n')
    t.equal(
      note,
      'ci/*: 1 of the newest 30 commits of branches with rules has a result by somebody else, which stays until it is deleted:',
    )
    t.same(commands, [
      `  commit-status-admin status delete acme/rocket ${newest} 'ci/all'`,
      `  commit-status-admin status delete acme/rocket ${newest} 'ci/it'\\''s \ufffd'`,
    ])
    const [, ...words] = /(status delete \S+ \S+) '(ci\/all)'/.exec(commands[0] ?? '') ?? []
    t.match(await runCli([...(words[0]?.split(' ') ?? []), words[1] ?? ''], environment), { code: 0 })
    t.same(
      (await store.statuses.list(id, newest)).map(({ context }) => context),
      [`ci/it's \u202e`, 'lint'],
      'the command works',
    )

    for (let index = 0; index < 31; index++)
      await server.report('acme/rocket', newest, { context: `many/${index}`, state: 'error' }, writer)
    const { stderr: many } = await cli('many/*', 'ci-bot')
    t.equal(many.split('status delete').length - 1, 30)
    t.match(many, 'and 1 more, which are shown when the command is run again')
    await cli('many/*', '--anyone')

    t.same(JSON.parse((await cli('--json')).stdout), [{ pattern: 'ci/*', users: ['ci-bot'] }])
    await write.users.delete('ci-bot')
    t.match((await cli()).stdout, /^PATTERN +USERS\nci\/\* +nobody\n$/)
    for (const [code, problem, ...args] of [
      [1, /there is no user "ci-bot"/, 'lint', 'ci-bot'],
      [1, /there is no user "staff"\. A group cannot be named/, 'lint', 'writer', 'staff'],
      [1, /nobody could report what both "ci\/all" and "ci\/\*" match/, 'ci/all', 'writer'],
      [1, /"lint" is not reserved/, 'lint', '--anyone'],
      [2, /either users or --anyone/, 'lint'],
      [2, /either users or --anyone/, 'lint', 'writer', '--anyone'],
      [2, /missing pattern/, '--anyone'],
      [2, /--json prints the list/, 'lint', 'writer', '--json'],
    ] as const)
      t.match(await cli(...args), { code, stderr: problem })
    rmSync(path, { recursive: true })
    t.match(await cli('ci/*', 'writer'), {
      code: 0,
      stderr: 'warning: git cannot read acme/rocket, so earlier results are not known\n',
    })
    t.match(await cli('ci/*', '--anyone'), { code: 0, stdout: '', stderr: '' })
    t.same(JSON.parse((await cli('--json')).stdout), [])
  })
