import t from 'tap'
import { asAdministrator } from '../../../test/helpers/changes.ts'
import { git, gitWith } from '../../../test/helpers/git.ts'
import { CommitStatusError, createClient } from '../src/index.ts'
import { nextLink } from '../src/link-header.ts'
import { call } from './helpers/command-line.ts'
import { environmentOf } from './helpers/run-script.ts'
import { startService } from './helpers/service.ts'

t.test('a link to the next page is found as RFC 8288 writes it', async (t) => {
  for (const [header, target] of [
    [null, null],
    ['', null],
    ['<?after=a>; rel="next"', '?after=a'],
    ['<?a,b;c=">; rel=next', '?a,b;c="'],
    ['</first>; rel="first", </n>; title="x, <y>; rel=\\"next\\""; rel="last NEXT"', '/n'],
    ['<a>;rel=prev , <b> ; REL = "next"', 'b'],
    ['<a>; rel=prev; rel=next', null],
    ['<a>; title="unfinished', null],
    ['nothing; rel=next', null],
    ['<a', null],
  ] as const)
    t.equal(nextLink(header), target, String(header))
})

t.test('the client and the commands ask what passed', async (t) => {
  const service = await startService(t, { commits: 3 })
  const { server, path, commits, token, proxy } = service
  const [first = '', second = '', third = ''] = commits
  const place = { owner: 'acme', repo: 'rocket' }
  const client = createClient({ baseUrl: proxy.url })
  const repository = await server.store.repositories.get('acme', 'rocket')
  const require = (refPattern: string, required: string) =>
    asAdministrator(server.store).rules.set(repository, { refPattern, required: [required], bypass: [] })
  const report = (sha: string, state: string) =>
    server.report('acme/rocket', sha, { context: 'ci', state }, token)
  const run = (...args: string[]) => call([...args, '--repo', 'acme/rocket'], environmentOf(service))

  t.match(await run('last-passed', '--branch', 'main'), {
    code: 7,
    stdout: '',
    stderr: /no checks are required/,
  })
  t.match(await run('last-passed', '--branch', 'main', '--require', 'x'), {
    code: 3,
    stdout: '',
    stderr: 'none of 3 commits of main has passed, and there are no more',
  })
  t.match(await run('last-passed', '--branch', 'mian'), { code: 5, stderr: '"mian" does not exist' })
  t.match(await run('last-passed'), { code: 2, stderr: 'missing branch' })
  t.match(await run('last-passed', '--branch', 'main', '--require', 'c*'), {
    code: 2,
    stderr: 'all patterns',
  })
  t.match(await run('last-passed', '--branch', 'main', '--after', 'x'), { code: 2, stderr: 'is not a' })
  t.match(await run('last-passed', '--branch', 'main', '--require', 'ci', '--unless', 'deploy/*'), {
    code: 2,
    stderr: 'name one context exactly',
  })
  await require('main', 'ci')
  await report(first, 'success')
  await report(third, 'failure')
  t.match(await run('last-passed', '--branch', 'main'), { code: 0, stdout: `${first}\n` })
  const answer = await client.getLastPassed({ ...place, branch: 'main', after: second })
  t.match(answer, { status: 200, body: { commit: { sha: first }, looked_at: 1 } })
  const json = await run('last-passed', '--branch', 'main', '--after', second, '--json')
  t.same(JSON.parse(json.stdout), answer.body)
  const home = process.cwd()
  git(path, 'update-ref', 'refs/heads/older', second)
  process.chdir(path)
  for (const name of [second.slice(0, 7), 'older', 'HEAD~1']) {
    const after = await run('last-passed', '--branch', 'main', '--after', name, '--json')
    t.match(JSON.parse(after.stdout), { commit: { sha: first }, looked_at: 1 }, name)
  }
  process.chdir(home)
  git(path, 'update-ref', '-d', 'refs/heads/older')
  await report(second, 'success')
  await server.report('acme/rocket', second, { context: 'deploy/prod', state: 'failure' }, token)
  const unless = await run('last-passed', '--branch', 'main', '--unless', 'deploy/prod')
  t.match(unless, { code: 0, stdout: `${first}\n` })
  await server.report('acme/rocket', second, { context: 'deploy/prod', state: 'success' }, token)
  t.match(await run('last-passed', '--branch', 'refs/heads/main'), { code: 0, stdout: `${second}\n` })

  const names = Array.from({ length: 65 }, (_, index) => `topic/${100 + index}`)
  gitWith(
    path,
    names.map((name) => `create refs/heads/${name} ${second}\n`).join(''),
    'update-ref',
    '--stdin',
  )
  await require('topic/164', 'ci')
  const all: string[] = []
  let pages = 0
  for await (const page of client.branchPages({ ...place, limit: 30 })) {
    all.push(...page.branches.map(({ name }) => name))
    pages++
  }
  t.same(all, ['main', ...names])
  t.equal(pages, 3)
  const red = await run('branches', '--verdict', 'failure')
  t.match(red, { code: 0, stdout: `failure    ${third}  main\n`, stderr: '' })
  const green = await run('branches', '--match', 'topic/16*', '--json')
  t.match(JSON.parse(green.stdout), [
    ...names.slice(60, 64).map((name) => ({ name, verdict: null })),
    { verdict: 'success' },
  ])
  t.match(await run('branches', '--match', 'topic/163'), { stdout: `(success)  ${second}  topic/163\n` })
  t.match(await run('branches', '--verdict', 'red'), { code: 2, stderr: '--verdict must be one of' })
  git(path, 'update-ref', 'refs/heads/main', first)

  const missing = client.branchPages({ owner: 'acme', repo: 'missing' })
  await t.rejects(missing.next(), CommitStatusError)
})
