import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { asAdministrator } from '../../helpers/changes.ts'
import { git as gitSync } from '../../helpers/git.ts'
import { addReport } from '../../helpers/records.ts'
import { startServer } from '../../helpers/server.ts'
import { until } from '../../helpers/until.ts'
import { basic, commit, createCheckout, git, headOf, spawnGit, tryGit, workFolder } from '../client.ts'
import { beginRpc, pushBody, servicesOf } from '../raw.ts'

const UNREPORTED = /! \[remote rejected\] \S+ -> main \(ci\/test has not reported\)/

const server = await startServer(t)
const { store } = server
const authorization = basic('x', await server.createToken('owner'))
const [owner] = await store.users.list()
if (!owner) throw new Error('there is no user')

/** Creates a repository that requires `ci/test` on `main`, and a checkout with one commit. */
async function setUp(name: string, objectFormat: 'sha1' | 'sha256' = 'sha1', path?: string) {
  if (path === undefined) await server.createRepository(`owner/${name}`, { objectFormat, commits: 0 })
  else
    await asAdministrator(store).repositories.create({
      owner: 'owner',
      name,
      visibility: 'public',
      objectFormat,
      path,
    })
  const repository = await store.repositories.get('owner', name)
  const checkout = await createCheckout(t, `${server.url}/owner/${name}.git`, objectFormat)
  const require = (refPattern: string, ...required: string[]) =>
    asAdministrator(store).rules.set(repository, { refPattern, required, bypass: [] })
  await require('main', 'ci/test')
  const head = () => headOf(checkout)
  return {
    repository,
    checkout,
    require,
    head,
    commit: () => commit(checkout),
    push: (...args: string[]) => tryGit(checkout, ['push', 'origin', ...args], { authorization }),
    report: async (state: 'success' | 'failure' | 'pending' | 'error', context = 'ci/test', sha?: string) => {
      await addReport({ store, repositoryId: repository.id, sha: sha ?? head() }, context, state)
    },
    tip: (branch: string) =>
      gitSync(repository.path, 'for-each-ref', '--format=%(objectname)', `refs/heads/${branch}`),
  }
}

t.test('two branches: pushed elsewhere, reported, then pushed to main', async (t) => {
  for (const objectFormat of ['sha1', 'sha256'] as const) {
    const { push, report, tip, commit, head, require } = await setUp(`flow-${objectFormat}`, objectFormat)
    const { stderr } = await push('HEAD:main')
    t.match(stderr, UNREPORTED, 'also the first push of the branch')
    t.match(stderr, /^remote: main: push the commit to another branch, such as main-checks, and here when/m)
    t.equal(tip('main'), '')
    const [, page = ''] = /^remote: {3}(http:\S+) *$/m.exec(stderr) ?? []
    t.equal(page, `${server.url}/owner/flow-${objectFormat}/commits/${head()}`)
    t.equal((await fetch(page)).status, 200)
    t.equal((await push('HEAD:topic')).code, 0)
    await report('pending')
    t.match((await push('HEAD:main')).stderr, /\(ci\/test is pending\)/)
    await report('success')
    t.equal((await push('HEAD:main')).code, 0)
    t.equal(tip('main'), head())
    const next = await commit()
    await report('success', 'ci/other')
    t.match((await push('HEAD:main')).stderr, UNREPORTED)
    await require('ma*', 'lint', 'ci/*', 'docs', 'deploy')
    await report('failure', 'ci/test')
    await report('error', 'ci/\u001b[31m\u202e')
    t.match(
      (await push('HEAD:main')).stderr,
      /\(ci\/\S+ reported error, ci\/test reported failure, lint has not reported, and 2 more\)/,
    )
    for (const context of ['lint', 'docs', 'deploy']) await report('success', context)
    t.match(
      (await push('HEAD:main')).stderr,
      /\(ci\/\ufffd\[31m\ufffd reported error, ci\/test reported failure\)/,
    )
    for (const context of ['ci/test', 'ci/\u001b[31m\u202e']) await report('success', context)
    t.equal((await push('HEAD:main')).code, 0)
    t.equal(tip('main'), next)
  }
})

t.test('other refs are decided on their own, unless the push is atomic', async (t) => {
  const { push, tip, head } = await setUp('refs')
  const names = [
    'refs/heads/mainx',
    'refs/heads/x/main',
    'refs/heads/Main',
    'refs/tags/main',
    'refs/notes/main',
  ]
  const atomic = await push('--atomic', 'HEAD:main', ...names.map((name) => `HEAD:${name}`))
  t.match(atomic.stderr, UNREPORTED)
  t.equal(tip('mainx'), '')
  t.match(atomic.stderr, /mainx \(the push is atomic, and another ref was refused\)/)
  const mixed = await push('HEAD:main', ...names.map((name) => `HEAD:${name}`))
  t.match(mixed.stderr, UNREPORTED)
  t.not(mixed.code, 0)
  t.equal(tip('main'), '')
  for (const name of names)
    t.match(
      mixed.stderr,
      new RegExp(`\\* \\[new \\w+\\] +HEAD -> ${name.replace(/refs\/(heads|tags)\//, '')}\n`),
    )
  t.equal(tip('mainx'), head())
  t.equal((await push('--atomic', ':mainx', 'HEAD:one', 'HEAD:two')).code, 0)
  t.equal(tip('one'), head())
})

t.test('a branch with rules is neither deleted nor pushed to by force', async (t) => {
  const { push, report, tip, checkout, head, repository, require } = await setUp('force')
  await report('success')
  const first = head()
  await push('HEAD:main')
  const { stderr } = await push(':main')
  t.match(stderr, /\[remote rejected\] main \(a branch with required checks cannot be deleted\)/)
  t.match(stderr, /^remote: main: an admin of the repository can remove the rule *\n.*\/settings\/checks *$/m)
  await git(checkout, ['checkout', '--quiet', '--orphan', 'other'])
  await commit(checkout)
  await report('success')
  const forced = /\(a branch with required checks cannot be pushed to by force\)/
  t.match((await push('--force', 'HEAD:main')).stderr, forced)
  t.equal(tip('main'), first)

  await asAdministrator(store).rules.set(repository, {
    refPattern: 'main',
    required: ['ci/test', 'e2e'],
    bypass: [owner],
  })
  await asAdministrator(store).rules.set(repository, {
    refPattern: 'm*',
    required: ['ci/test'],
    bypass: [],
  })
  t.match((await push('--force', 'HEAD:main')).stderr, forced, 'each rule must name the user')
  await asAdministrator(store).rules.set(repository, {
    refPattern: 'm*',
    required: ['ci/test'],
    bypass: [owner],
  })
  await require('strict', 'lint')
  t.match(
    (await push('--atomic', '--force', 'HEAD:main', 'HEAD:strict')).stderr,
    /main \(the push is atomic.*strict \(lint has not reported\)/s,
    'which bypasses nothing',
  )
  const bypassing = await push('--force', 'HEAD:main')
  t.equal(bypassing.code, 0)
  t.match(bypassing.stderr, /^remote: main: you may bypass its rule: a branch with .* pushed to by force *$/m)
  const second = head()
  t.equal(tip('main'), second)
  await report('success', 'e2e', await commit(checkout))
  await report('success')
  t.match(await push('HEAD:main'), { code: 0, stderr: /^(?!.*bypass)/s }, 'nothing to bypass')
  // git itself refuses to delete the branch of HEAD.
  gitSync(repository.path, 'symbolic-ref', 'HEAD', 'refs/heads/topic')
  t.equal((await push(':main')).code, 0)
  const events = []
  for await (const lines of store.auditLog.list({ repository: 'owner/force' })) events.push(...lines)
  t.match(
    events.filter(({ action }) => action === 'rule.bypassed'),
    [
      {
        actor: 'user',
        user: 'owner',
        token_name: 'test',
        address: '127.0.0.1',
        object: 'owner/force',
        details: { ref: 'refs/heads/main', old: first, new: second, reason: /by force/ },
      },
      { details: { new: '0'.repeat(40), reason: /deleted/ } },
    ],
  )
})

t.test(
  'HEAD follows the first pushed branch only while no rule matches the branch that it names',
  async (t) => {
    const { push, tip, repository, head, report } = await setUp('follows')
    const headOf = () => gitSync(repository.path, 'symbolic-ref', 'HEAD')
    t.equal(headOf(), 'refs/heads/main')
    t.equal((await push('HEAD:topic')).code, 0)
    t.equal(tip('topic'), head())
    t.equal(headOf(), 'refs/heads/main', 'main has a rule')

    await asAdministrator(store).rules.remove(repository, 'main')
    await asAdministrator(store).rules.set(repository, {
      refPattern: 'topic',
      required: ['ci/test'],
      bypass: [],
    })
    t.equal((await push('HEAD:other')).code, 0)
    t.equal(headOf(), 'refs/heads/other', 'a rule for another branch does not matter')
    await asAdministrator(store).rules.set(repository, {
      refPattern: 'ma*',
      required: ['ci/test'],
      bypass: [owner],
    })
    gitSync(repository.path, 'symbolic-ref', 'HEAD', 'refs/heads/main')
    t.equal((await push('HEAD:more')).code, 0)
    t.equal(headOf(), 'refs/heads/main', 'nor does who may bypass it')
    await report('success')
    t.equal((await push('HEAD:main')).code, 0)
    t.equal(headOf(), 'refs/heads/main')
    t.equal(tip('main'), head())
  },
)

t.test('a push updates at most fifty branches with rules, unless its user may bypass them', async (t) => {
  const { push, report, tip, repository, require } = await setUp('many')
  await report('success')
  await require('m/*', 'ci/test')
  const refs = (count: number, folder: string) =>
    Array.from({ length: count }, (_, index) => `HEAD:refs/${folder}${index}`)
  const many = await push('HEAD:main', ...refs(50, 'heads/m/'), 'HEAD:free')
  t.match(
    many.stderr,
    /! \[remote rejected\] HEAD -> m\/49 \(51 branches with required checks in one push; at most 50/,
  )
  t.equal(tip('main') + tip('free'), '')
  gitSync(repository.path, 'symbolic-ref', 'refs/aliases/main', 'refs/heads/main')
  t.match((await push('HEAD:refs/aliases/main', ...refs(50, 'heads/m/'))).stderr, /51 branches with required/)
  t.equal((await push('HEAD:main', ...refs(49, 'heads/m/'), ...refs(60, 'tags/a'))).code, 0, 'others beside')
  for (const refPattern of ['main', 'm/*'])
    await asAdministrator(store).rules.set(repository, {
      refPattern,
      required: ['ci/test'],
      bypass: [owner],
    })
  t.equal((await push(...refs(501, 'heads/m/n'))).code, 0, 'a mirror, of more than git compares at once')
})

t.test('rules and reports count that come while git works', async (t) => {
  const { push, report, tip, repository, commit } = await setUp('meanwhile')
  await report('success')
  await push('HEAD:main', 'HEAD:other')
  await commit()
  await report('success')
  const { load } = store.rules
  t.teardown(() => {
    store.rules.load = load
  })
  const whileGitWorks = (work: () => Promise<void>) => {
    let calls = 0
    store.rules.load = async (id) => {
      if (++calls === 2) await work()
      return load(id)
    }
  }
  whileGitWorks(() => report('failure'))
  t.match((await push('HEAD:main')).stderr, /ci\/test reported failure/)
  await report('success')
  whileGitWorks(async () => {
    await asAdministrator(store).rules.set(repository, {
      refPattern: 'oth*',
      required: ['e2e'],
      bypass: [],
    })
  })
  const { stderr } = await push('HEAD:main', 'HEAD:other', '+HEAD~1:refs/heads/others')
  t.match(stderr, /other \(e2e has not reported\)/)
  t.not(tip('other'), tip('main'))
})

t.test('access that ends while git works counts', async (t) => {
  const { checkout, report, tip } = await setUp('ended')
  await report('success')
  const user = await asAdministrator(store).users.create('leaver')
  await asAdministrator(store).collaborators.set({ owner: 'owner', name: 'ended' }, user.id, 'write')
  const token = basic('x', await server.createToken('leaver'))
  const { load } = store.rules
  t.teardown(() => {
    store.rules.load = load
  })
  store.rules.load = async (id) => {
    await asAdministrator(store).collaborators.set({ owner: 'owner', name: 'ended' }, user.id, 'read')
    return load(id)
  }
  const { stderr } = await tryGit(checkout, ['push', 'origin', 'HEAD:main', 'HEAD:topic'], {
    authorization: token,
  })
  t.equal(stderr.match(/\(you may not push here any more\)/g)?.length, 2, stderr)
  t.equal(tip('main') + tip('topic'), '')
})

t.test('a push that has begun is served, whoever spends the budget of its address', async (t) => {
  const { push, report, tip, commit } = await setUp('blocked')
  await report('success')
  const { load } = store.rules
  store.rules.load = async (id) => {
    for (let count = 0; count < 30; count++)
      await store.failures.count('127.0.0.1', { limit: 30, window: 300 })
    return load(id)
  }
  const { code, stderr } = await push('HEAD:main')
  store.rules.load = load
  t.equal(code, 0, stderr)
  t.equal(tip('main').length, 40)
  await commit()
  t.match((await push('HEAD:topic')).stderr, /Too many failed authentication attempts/, 'the next one is not')
  await asAdministrator(store).failures.lift('127.0.0.1')
  t.equal((await push('HEAD:topic')).code, 0)
})

t.test('symbolic refs lead to the rules of their branches', async (t) => {
  const { push, report, commit, tip, repository, head } = await setUp('symbolic')
  await report('success')
  await push('HEAD:main', 'HEAD:plain')
  const first = head()
  gitSync(repository.path, 'symbolic-ref', 'refs/heads/trunk', 'refs/heads/main')
  gitSync(repository.path, 'symbolic-ref', 'refs/aliases/main', 'refs/heads/trunk')
  await commit()
  const pushed = await push('HEAD:refs/heads/trunk', 'HEAD:refs/aliases/main')
  gitSync(repository.path, 'symbolic-ref', 'HEAD', 'refs/heads/plain')
  const deleted = await push(':refs/heads/trunk', ':refs/aliases/main')
  for (const alias of ['trunk', 'refs/aliases/main']) {
    t.match(pushed.stderr, `[remote rejected] HEAD -> ${alias} (ci/test has not reported)`)
    t.match(deleted.stderr, `[remote rejected] ${alias} (a branch with required checks cannot be deleted)`)
  }
  t.equal(tip('main'), first)
  gitSync(repository.path, 'symbolic-ref', 'refs/heads/main', 'refs/heads/plain')
  t.match((await push('HEAD:plain')).stderr, /\(ci\/test has not reported\)/, 'main shows what plain is')
})

t.test('symbolic refs whose branches do not exist lead to the rules too', async (t) => {
  const { push, tip, repository } = await setUp('dangling')
  const link = (ref: string, target: string) => gitSync(repository.path, 'symbolic-ref', ref, target)
  link('refs/heads/trunk', 'refs/heads/main')
  link('refs/aliases/main', 'refs/heads/trunk')
  const { stderr } = await push('HEAD:refs/heads/trunk', 'HEAD:refs/aliases/main')
  for (const alias of ['trunk', 'refs/aliases/main'])
    t.match(stderr, `[remote rejected] HEAD -> ${alias} (ci/test has not reported)`)
  link('refs/heads/main', 'refs/heads/plain')
  t.match((await push('HEAD:plain')).stderr, /\(ci\/test has not reported\)/, 'main shows what plain is')
  t.equal(tip('main'), '')
  t.equal((await push('HEAD:other')).code, 0)
})

t.test('concurrent pushes and reports', async (t) => {
  const { push, report, commit, tip, head, checkout } = await setUp('concurrent')
  await report('success')
  await push('HEAD:main')
  const base = head()
  const candidates: string[] = []
  for (let index = 0; index < 4; index++) {
    await git(checkout, ['checkout', '--quiet', '-b', `candidate-${index}`, base])
    candidates.push(await commit())
    if (index % 2 === 0) await report('success')
  }
  const results = await Promise.all(
    candidates.map((sha, index) => push(`${sha}:main`, `${sha}:refs/heads/topic-${index}`)),
  )
  for (const { code, stderr } of results.filter((_result, index) => index % 2 === 1)) {
    t.equal(code, 1)
    // A push that begins after another has landed is refused by its own git, or for its old value.
    t.match(
      stderr,
      new RegExp(`${UNREPORTED.source}|\\((?:fetch first|non-fast-forward|the branch has changed.*)\\)`),
    )
  }
  t.equal(results.filter(({ code }) => code === 0).length, 1, 'git compares the tip')
  t.ok([candidates[0], candidates[2]].includes(tip('main')))
  for (const [index, sha] of candidates.entries()) t.equal(tip(`topic-${index}`), sha)
})

t.test('no hook of an imported repository runs', async (t) => {
  const folder = workFolder(t)
  const path = join(folder, 'imported.git')
  gitSync(folder, 'init', '--quiet', '--bare', path)
  const proof = join(folder, 'proof')
  for (const name of ['proc-receive', 'pre-receive', 'update', 'post-receive', 'reference-transaction'])
    writeFileSync(join(path, 'hooks', name), `#!/bin/sh\necho ${name} >> ${proof}\n`, { mode: 0o755 })
  for (const value of ['refs/tags', '!refs/heads/main'])
    gitSync(path, 'config', '--add', 'receive.procReceiveRefs', value)
  const { push, report, tip, head, require } = await setUp('imported', 'sha1', path)
  const options = ['-o', '--bypass', '-o', 'refs/heads/main', '-o', 'version=1']
  t.match((await push(...options, 'HEAD:main', 'HEAD:topic')).stderr, UNREPORTED)
  t.equal(tip('topic'), head())
  await report('success')
  t.equal((await push(...options, 'HEAD:main', 'HEAD:refs/tags/v1')).code, 0)
  t.equal(tip('main'), head())
  t.notOk(existsSync(proof))
  await require('*', 'never')
  t.not((await push('HEAD:other')).code, 0)
})

t.test('a ref name that git would not create is not taken for another one', async (t) => {
  const { head, report, tip, push, commit } = await setUp('names')
  await report('success')
  const first = head()
  await push('HEAD:main', 'HEAD:topic')
  const next = await commit()
  await push('HEAD:topic')
  t.equal(tip('topic'), next)
  const zero = '0'.repeat(40)
  const send = async (...commands: string[]) => {
    const url = `${server.url}/owner/names.git`
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    request.end(pushBody(commands, 'report-status'))
    return (await answer).body.toString()
  }
  const main = `${first} ${next} refs/heads/main`
  t.match(await send(main), /ng refs\/heads\/main ci\/test has not reported/, 'the request is understood')
  for (const other of [
    `${zero} ${next} refs/heads/main x`,
    `${zero} ${next} refs/heads/main\tx`,
    `${first} ${next} refs/heads/../heads/main`,
    `${first} ${next} HEAD`,
    main,
    `${first} ${first} refs/heads/main`,
    `${first} ${next} refs/heads//main`,
  ]) {
    for (const commands of [[other], [other, main], [main, other]]) await send(...commands)
    t.equal(tip('main'), first, other)
  }
  const many = Array.from({ length: 10_001 }, (_, index) => `${zero} ${next} refs/heads/b${index}`)
  t.match(
    await send(...many),
    /^....unpack ok\n....ng refs\/heads\/b10000 10001 refs in one push; at most 10000 are allowed\n0000$/,
  )
  t.equal(tip('b10000'), '')
})

t.test('git and its hook end with the client', async (t) => {
  const { push, report, tip, checkout } = await setUp('gone')
  await report('success')
  const asked = Promise.withResolvers<void>()
  const { reportedContexts } = store
  t.teardown(() => {
    store.reportedContexts = reportedContexts
  })
  store.reportedContexts = () => {
    asked.resolve()
    return new Promise(() => {})
  }
  const client = spawnGit(checkout, ['push', 'origin', 'HEAD:main'], { authorization, detached: true })
  await asked.promise
  t.not(servicesOf().length, 0)
  process.kill(-(client.pid ?? 0), 'SIGKILL')
  await until(() => servicesOf().length === 0)
  t.equal(tip('main'), '')
  store.reportedContexts = reportedContexts
  t.equal((await push('HEAD:main')).code, 0)
})

t.test('what is no commit is refused as such', async (t) => {
  const { repository, push, report, checkout, tip, head } = await setUp('trees')
  const refused = /! \[remote rejected\] \S+ -> main \(not a commit\)/
  const tree = await git(checkout, ['rev-parse', 'HEAD^{tree}'])
  await git(checkout, ['tag', '--annotate', '--message', 'a tag', 'annotated'])
  const pushed = async () => {
    for (const id of [tree, 'annotated'])
      t.match((await push(`+${id}:refs/heads/main`)).stderr, refused, 'whatever was reported')
  }
  await pushed()
  await report('success')
  t.equal((await push('HEAD:main')).code, 0)
  await pushed()
  await asAdministrator(store).rules.set(repository, {
    refPattern: 'main',
    required: ['ci/test'],
    bypass: [owner],
  })
  await pushed()
  t.equal(tip('main'), head())
})

t.test('a push that expects another tip is no failure of the server', async (t) => {
  const { push, report, checkout, head, repository } = await setUp('expected')
  await report('success')
  await git(checkout, ['tag', '--annotate', '--message', 'a tag', 'annotated'])
  await push('HEAD:main', 'annotated')
  const [id, tree, tag = ''] = [
    head(),
    ...(await git(checkout, ['rev-parse', 'HEAD^{tree}', 'annotated'])).split('\n'),
  ]
  for (const bypass of [[], [owner]]) {
    await asAdministrator(store).rules.set(repository, {
      refPattern: 'main',
      required: ['ci/test'],
      bypass,
    })
    for (const old of ['1'.repeat(40), tree, tag]) {
      const url = `${server.url}/owner/expected.git`
      const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
      request.end(pushBody([`${old} ${id} refs/heads/main`], 'report-status'))
      t.match(
        (await answer).body.toString(),
        'ng refs/heads/main the branch has changed; fetch and push again',
      )
    }
  }
})

t.test('a failure refuses the push', async (t) => {
  const { push, report, tip } = await setUp('failure')
  await report('success')
  const { reportedContexts } = store
  store.reportedContexts = async () => {
    throw new Error('no database')
  }
  t.match(
    (await push('HEAD:main', 'HEAD:topic')).stderr,
    /\(the server cannot check the rules of the repository now; push again later\)/,
  )
  store.reportedContexts = reportedContexts
  t.equal(tip('main') + tip('topic'), '')
  t.equal((await push('HEAD:main')).code, 0)
})
