import t, { type Test } from 'tap'
import { asAdministrator } from '../../helpers/changes.ts'
import { listEvents, listPushes } from '../../helpers/events.ts'
import { createCommits, git as gitSync } from '../../helpers/git.ts'
import { addReport } from '../../helpers/records.ts'
import { startServer } from '../../helpers/server.ts'
import { basic, createCheckout, git, tryGit } from '../client.ts'
import { beginRpc, pushBody } from '../raw.ts'
import { tryRandomPushes } from './rule-model.ts'

const server = await startServer(t)
const { store } = server
const authorization = basic('x', await server.createToken('owner'))
const [owner] = await store.users.list()
if (!owner) throw new Error('there is no user')
const NONE = '0'.repeat(40)

/** Creates a repository that requires `ci` on tags `v*`, and a checkout with tags to push. */
async function setUp(t: Test, name: string, objectFormat: 'sha1' | 'sha256' = 'sha1') {
  await server.createRepository(`owner/${name}`, { objectFormat, commits: 0 })
  const repository = await store.repositories.get('owner', name)
  const url = `${server.url}/owner/${name}.git`
  const checkout = await createCheckout(t, url, objectFormat)
  const rule = { refPattern: 'refs/tags/v*', required: ['ci'], bypass: [] }
  await asAdministrator(store).rules.set(repository, rule)
  const head = await git(checkout, ['rev-parse', 'HEAD'])
  const annotate = (tag: string, object: string) => git(checkout, ['tag', '-a', '-m', tag, tag, object])
  await annotate('annotated', 'HEAD')
  await annotate('nested', 'annotated')
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:refs/heads/main'], { authorization })
  return {
    repository,
    checkout,
    url,
    head,
    rule,
    annotate,
    push: (...args: string[]) => tryGit(checkout, ['push', 'origin', ...args], { authorization }),
    report: (state: 'success' | 'failure' | 'pending') =>
      addReport({ store, repositoryId: repository.id, sha: head }, 'ci', state),
    tags: () => gitSync(repository.path, 'for-each-ref', '--format=%(objectname) %(refname)', 'refs/tags'),
    /** Pushes as no git client does. */
    async raw(...commands: string[]): Promise<string> {
      const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
      request.end(pushBody(commands, ' report-status'))
      return (await answer).body.toString('latin1')
    },
  }
}

t.test('a tag with rules is created on a commit that has passed, and then stays', async (t) => {
  for (const objectFormat of ['sha1', 'sha256'] as const) {
    const { push, report, tags, checkout, head, annotate } = await setUp(
      t,
      `tags-${objectFormat}`,
      objectFormat,
    )
    /** Checks that a push is refused each of these updates, with its reason. */
    const refused = (stderr: string, updates: readonly (readonly [update: string, reason: string])[]) => {
      for (const [update, reason] of updates) t.match(stderr, `! [remote rejected] ${update} (${reason})\n`)
    }
    const names = ['HEAD:refs/tags/v1', 'annotated:refs/tags/v2', 'nested:refs/tags/v3']
    const { stderr } = await push(...names)
    refused(stderr, [
      ['HEAD -> v1', 'ci has not reported'],
      ['annotated -> v2', 'ci has not reported'],
      ['nested -> v3', 'ci has not reported'],
    ])
    const advice = stderr.match(/^remote: .*\S/gm)
    const page = `remote:   ${server.url}/owner/tags-${objectFormat}/commits/${head}`
    const next = 'push the commit to a branch, and the tag when its checks have passed'
    t.same(
      advice,
      ['v1', 'v2', 'v3'].flatMap((tag) => [`remote: ${tag}: ${next}`, page]),
    )
    t.equal((await fetch(page.split(' ').at(-1) ?? '')).status, 200)
    await report('failure')
    t.match((await push('nested:refs/tags/v3')).stderr, /\(ci reported failure\)/)
    const tree = await git(checkout, ['rev-parse', 'HEAD^{tree}'])
    const blob = await git(checkout, ['hash-object', '-w', '--stdin'], { input: 'x' })
    await annotate('of-tree', tree)
    await report('success')
    const noCommits = await push(`${tree}:refs/tags/v4`, `${blob}:refs/tags/v5`, 'of-tree:refs/tags/v6')
    const noCommit = 'a tag with required checks must name a commit'
    refused(noCommits.stderr, [
      [`${tree} -> v4`, noCommit],
      [`${blob} -> v5`, noCommit],
      ['of-tree -> v6', noCommit],
    ])
    t.equal(tags(), '')

    t.equal((await push(...names)).code, 0)
    const before = tags()
    t.equal(before.split('\n').length, 3)
    const moved = 'a tag with required checks cannot be moved'
    const moves = ['annotated:refs/tags/v1', 'HEAD:refs/tags/v2', 'annotated:refs/tags/v3']
    refused((await push('--force', ...moves)).stderr, [
      ['annotated -> v1', moved],
      ['HEAD -> v2', moved],
      ['annotated -> v3', moved],
    ])
    refused((await push('--force', `${tree}:refs/tags/v1`, ':refs/tags/v2')).stderr, [
      [`${tree} -> v1`, moved],
      ['v2', 'a tag with required checks cannot be deleted'],
    ])
    t.equal((await push('--force', 'HEAD:refs/tags/v1')).code, 0, 'nothing to do')
    t.equal(tags(), before)
    t.equal((await push(`${tree}:refs/tags/w`, 'annotated:refs/tags/V1')).code, 0, 'other tags, other case')
    t.equal((await push('--force', `${head}:refs/tags/w`)).code, 0)
    t.equal((await push(':refs/tags/w', ':refs/tags/V1')).code, 0)
    t.equal(tags(), before)
  }
})

t.test('who may bypass the rule may do all of it, on record', async (t) => {
  const { push, repository, rule, checkout, tags } = await setUp(t, 'bypass')
  const tree = await git(checkout, ['rev-parse', 'HEAD^{tree}'])
  await asAdministrator(store).rules.set(repository, { ...rule, bypass: [owner] })
  for (const args of [
    ['HEAD:refs/tags/v1'],
    ['--force', 'nested:refs/tags/v1'],
    [':refs/tags/v1'],
    [`${tree}:refs/tags/v2`],
  ])
    t.match(await push(...args), { code: 0 }, args.join(' '))
  t.equal(tags(), `${tree} refs/tags/v2`)
  const events = (await listEvents(store)).filter(({ action }) => action === 'rule.bypassed')
  t.strictSame(events.map(({ details }) => `${details.ref}: ${details.reason}`).sort(), [
    'refs/tags/v1: a tag with required checks cannot be deleted',
    'refs/tags/v1: a tag with required checks cannot be moved',
    'refs/tags/v1: ci has not reported',
    'refs/tags/v2: a tag with required checks must name a commit',
  ])
})

t.test('an event names fifty bypasses of a push, whose names are read as UTF-8', async (t) => {
  const { push, raw, head, repository, rule } = await setUp(t, 'bypasses')
  await asAdministrator(store).rules.set(repository, { ...rule, bypass: [owner] })
  const names = Array.from({ length: 102 }, (_, index) => `refs/tags/v${index}`)
  const update = (ref: string) => ({ ref, old: NONE, new: head })
  const bypasses = async () =>
    (await listEvents(store, { repository: 'owner/bypasses' }))
      .filter(({ action }) => action === 'rule.bypassed')
      .map(({ details }) => details)
  await raw(...names.map((name) => `${NONE} ${head} ${name}`), `${head} ${NONE} refs/tags/v102`)
  t.strictSame(await bypasses(), [], 'git refuses all of it')
  await raw(...names.map((name) => `${NONE} ${head} ${name}`))
  const reason = 'ci has not reported'
  t.strictSame(await bypasses(), [
    { updates: names.slice(0, 50).map(update), reason },
    { updates: names.slice(50, 100).map(update), reason },
    { updates: names.slice(100).map(update), reason },
  ])
  await push('HEAD:refs/tags/vü', ':refs/tags/v1')
  t.strictSame((await bypasses()).slice(3), [
    { ref: 'refs/tags/v1', old: head, new: NONE, reason: 'a tag with required checks cannot be deleted' },
    { ...update('refs/tags/vü'), reason },
  ])
})

t.test('tags and free branches beside a branch with rules are decided together', async (t) => {
  const { raw, report, head, repository, rule } = await setUp(t, 'beside')
  await asAdministrator(store).rules.set(repository, { refPattern: 'main', required: ['ci'], bypass: [] })
  await report('success')
  const [other = ''] = createCommits(repository.path, 1, 'other')
  const commands = [
    `${head} ${other} refs/heads/main`,
    ...Array.from({ length: 200 }, (_, index) => `${NONE} ${head} refs/heads/free/${index}`),
    ...Array.from({ length: 500 }, (_, index) => `${NONE} ${head} refs/tags/t${index}`),
    ...[`${NONE} ${head} refs/tags/v1`, `${NONE} ${other} refs/tags/v2`, `${NONE} ${head} refs/tags/v3`],
  ]
  const answer = await raw(...commands)
  t.match(answer, /^000eunpack ok/, 'without side-band git says no more')
  const refused = answer.match(/ng [^\n]+/g)
  t.strictSame(refused, [
    'ng refs/heads/main a branch with required checks cannot be pushed to by force',
    'ng refs/tags/v2 ci has not reported',
  ])
  t.equal(gitSync(repository.path, 'for-each-ref', '--count=1', '--format=%(refname)', 'refs/tags/v2'), '')
  t.equal(gitSync(repository.path, 'for-each-ref', 'refs').split('\n').length, 1 + 1 + 200 + 500 + 2)

  const pushed = async () => (await listPushes(store, { repository: 'owner/beside' })).slice(-1)
  const [event] = await pushed()
  t.equal((event?.details.updates.length ?? 0) + (event?.details.more ?? 0), 200 + 500 + 2)
  t.notMatch(JSON.stringify(event), /refs\/heads\/main|refs\/tags\/v2/)
  const bypasses = async () =>
    (await listEvents(store, { repository: 'owner/beside' }))
      .filter(({ action }) => action === 'rule.bypassed')
      .map(({ details }) => details)
  t.strictSame(await bypasses(), [], 'nobody may bypass a rule')

  await asAdministrator(store).rules.set(repository, { ...rule, bypass: [owner] })
  const next = commands.map((command) => command.replace(/(free|tags)\//, '$1/next/'))
  t.strictSame((await raw(...next.map((command) => command.replace('next/v', 'v/')))).match(/ng [^\n]+/g), [
    'ng refs/heads/main a branch with required checks cannot be pushed to by force',
  ])
  t.strictSame(
    await bypasses(),
    [{ ref: 'refs/tags/v/2', old: NONE, new: other, reason: 'ci has not reported' }],
    'of the tags that have rules, the one that has not passed',
  )
})

t.test('random pushes end as the rule in ten lines says', async (t) => {
  t.equal(await tryRandomPushes(t, server, 'sha1', 40, 1), 40)
})
