import { join } from 'node:path'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { startServer } from '../helpers/server.ts'
import { basic, commit, createCheckout, git, packedPush, tryGit, workFolder } from './client.ts'
import { beginRpc, EMPTY_PACK, emptyPack, packet, pushBody } from './raw.ts'

const server = await startServer(t)
const authorization = basic('x', await server.createToken('owner'))

/** Creates a repository and a checkout of it, whose branch `main` is pushed. */
async function setUp(name: string, size?: number) {
  const { path } = await server.createRepository(`owner/${name}`, { commits: 0 })
  const url = `${server.url}/owner/${name}.git`
  const checkout = await createCheckout(t, url)
  if (size !== undefined) await commit(checkout, size)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], { authorization })
  return { path, url, checkout }
}

t.test('a partial clone leaves out what its filter names, and fetches it later', async (t) => {
  const size = 2_000_000
  const { url, checkout } = await setUp('partial', size)
  const large = await git(checkout, ['rev-parse', `HEAD:${await fileOf(checkout)}`])

  const left = ['blob:none', 'blob:limit=1k', 'tree:0', 'object:type=commit']
  for (const filter of left)
    for (const version of ['0', '1', '2']) {
      const folder = workFolder(t)
      const options = { config: { 'protocol.version': version } }
      await git(folder, ['clone', '--quiet', '--bare', `--filter=${filter}`, url, 'clone'], options)
      const clone = join(folder, 'clone')
      const sizes = await git(clone, ['count-objects', '-v'])
      t.ok(Number(/size-pack: (\d+)/.exec(sizes)?.[1]) < 100, `${filter}, version ${version}: ${sizes}`)
      t.equal(await git(clone, ['cat-file', '-s', large], options), String(size), 'fetched by its id')
    }

  for (const filter of ['sparse:oid=main', 'combine:tree:3+blob:none', 'tree:x', 'unknown']) {
    const refused = await tryGit(workFolder(t), ['clone', `--filter=${filter}`, url, 'clone'])
    t.not(refused.code, 0, `${filter}: ${refused.stderr}`)
  }
})

t.test('a clone from which all commits are excluded gets the reason of git', async (t) => {
  const { url } = await setUp('excluded')
  for (const version of ['0', '1', '2']) {
    const options = { config: { 'protocol.version': version } }
    const { code, stderr } = await tryGit(
      workFolder(t),
      ['clone', '--shallow-exclude=main', url, 'clone'],
      options,
    )
    t.not(code, 0)
    t.match(stderr, /fatal: remote error: no commits selected for shallow requests$/m, `version ${version}`)
  }
})

t.test('a push of ids in another object format says so, with rules and without', async (t) => {
  const { path, url } = await setUp('format')
  const push = async () => {
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    const command = `${'0'.repeat(64)} ${'1'.repeat(64)} refs/heads/main`
    request.end(pushBody([command], 'report-status object-format=sha256', emptyPack('sha256')))
    return (await answer).body.toString('latin1')
  }
  const told =
    /ng refs\/heads\/main the push has object ids of 64 hex digits; those of this repository have 40/
  t.match(await push(), told)
  const repository = await server.store.repositories.get('owner', 'format')
  const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
  await asAdministrator(server.store).rules.set(repository, rule)
  t.match(await push(), told)
  t.match(await git(path, ['for-each-ref', '--format=%(refname)']), /^refs\/heads\/main$/)
})

t.test('a fetch may name the id of any object of the repository', async (t) => {
  const { path, url, checkout } = await setUp('by-id')
  const tip = await commit(checkout)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:gone'], { authorization })
  await git(checkout, ['push', '--quiet', 'origin', ':gone'], { authorization })
  t.equal(await git(path, ['for-each-ref', '--format=%(refname)']), 'refs/heads/main')
  for (const version of ['0', '1', '2']) {
    const folder = workFolder(t)
    await git(folder, ['init', '--quiet', '--bare'])
    const fetch = (id: string) =>
      tryGit(folder, ['fetch', '--quiet', url, id], { config: { 'protocol.version': version } })
    t.match(await fetch(tip), { code: 0 }, `version ${version}`)
    t.match((await fetch('1'.repeat(40))).stderr, /not our ref/)
  }
})

t.test('only a push that a rule refuses leaves objects that can be fetched', async (t) => {
  const { path, url, checkout } = await setUp('refused')
  const repository = await server.store.repositories.get('owner', 'refused')
  const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
  await asAdministrator(server.store).rules.set(repository, rule)
  const push = async (...args: string[]) => {
    const id = await commit(checkout)
    return { id, ...(await tryGit(checkout, ['push', 'origin', ...args], { authorization })) }
  }
  const fetchById = async (id: string) => {
    const folder = workFolder(t)
    await git(folder, ['init', '--quiet', '--bare'])
    return tryGit(folder, ['fetch', '--quiet', url, id])
  }
  const byRule = await push('HEAD:main')
  t.match(byRule.stderr, /ci has not reported/)
  t.match(await fetchById(byRule.id), { code: 0 }, 'as the guide says')

  await git(path, ['config', 'receive.maxInputSize', '1'])
  const byGit = await push('HEAD:other')
  t.match(byGit.stderr, /exceeds maximum allowed size/)
  await git(path, ['config', '--unset', 'receive.maxInputSize'])
  const deletion = `${'2'.repeat(40)} ${'0'.repeat(40)} refs/heads/main`
  const early = await packedPush(t, url, 20)
  const end = Number.parseInt(early.bytes.toString('latin1', 0, 4), 16)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  request.write(early.bytes.subarray(0, end))
  request.end(Buffer.concat([Buffer.from(packet(deletion)), early.bytes.subarray(end)]))
  t.match((await answer).body.toString(), /ng refs\/heads\/raw refs\/heads\/main has changed/)
  for (const id of [byGit.id, early.id]) t.match((await fetchById(id)).stderr, /not our ref/)
})

t.test('options of a push are accepted and have no effect', async (t) => {
  const { path, checkout } = await setUp('options')
  const repository = await server.store.repositories.get('owner', 'options')
  const push = (...args: string[]) =>
    tryGit(checkout, ['push', '-o', 'ci.skip', '-o', 'a=b c', 'origin', ...args], { authorization })
  const id = await commit(checkout)
  t.match(await push('HEAD:main'), { code: 0 })
  t.equal(await git(path, ['rev-parse', 'main']), id)
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: 'main',
    required: ['ci'],
    bypass: [],
  })
  await commit(checkout)
  t.match((await push('HEAD:main', 'HEAD:other')).stderr, /-> main \(ci has not reported\)/)
  t.equal(await git(path, ['rev-parse', 'main']), id)
  t.equal(await git(path, ['rev-parse', 'other']), await git(checkout, ['rev-parse', 'HEAD']))
})

t.test('options of a push that would fill the memory are refused', async (t) => {
  const { url, checkout } = await setUp('many-options')
  const id = await git(checkout, ['rev-parse', 'HEAD'])
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  const option = packet('x'.repeat(60_000))
  const body = [
    packet(`${'0'.repeat(40)} ${id} refs/heads/options\0 report-status push-options`),
    `0000${option.repeat(150)}0000`,
  ]
  request.end(Buffer.concat([Buffer.from(body.join('')), EMPTY_PACK]))
  t.equal((await answer).status, 413)
})

t.test('flaws of old histories are accepted, dangerous objects are not', async (t) => {
  const { path, checkout } = await setUp('flaws')
  const write = (type: string, input: string | Uint8Array) =>
    git(checkout, ['hash-object', '-t', type, '-w', '--literally', '--stdin'], { input })
  const blob = await write('blob', 'x')
  const treeOf = (mode: string, name: string) =>
    write('tree', Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(blob, 'hex')]))
  const who = 'A <a@example.org> 1700000000 +0000'
  const commitOf = (tree: string, author = who) =>
    write('commit', `tree ${tree}\nauthor ${author}\ncommitter ${who}\n\nmessage\n`)
  const tree = await treeOf('100644', 'file')
  const accepted = {
    'a zero-padded mode': await commitOf(await treeOf('0100644', 'file')),
    'no space before the date': await commitOf(tree, 'A <a@example.org>1700000000 +0000'),
    'a bad time zone': await commitOf(tree, 'A <a@example.org> 1700000000 +051800'),
  }
  for (const [flaw, id] of Object.entries(accepted)) {
    const pushed = await tryGit(checkout, ['push', 'origin', `${id}:refs/heads/${id}`], { authorization })
    t.match(pushed, { code: 0 }, `${flaw}: ${pushed.stderr}`)
  }
  const refused = {
    hasDotgit: await commitOf(await treeOf('100644', '.GIT')),
    missingEmail: await commitOf(tree, 'A 1700000000 +0000'),
  }
  for (const [flaw, id] of Object.entries(refused)) {
    const { stderr } = await tryGit(checkout, ['push', 'origin', `${id}:refs/heads/${id}`], { authorization })
    t.match(stderr, new RegExp(`${flaw}: .*`), stderr)
    t.not((await tryGit(path, ['cat-file', '-e', id])).code, 0, 'and not stored')
  }
})

t.test('Git LFS is told that it is not supported, whoever asks for what', async (t) => {
  await server.createRepository('owner/lfs-private', { private: true })
  const answers = new Set<string>()
  const paths = ['.git/info/lfs/objects/batch', '/info/lfs/locks/verify', '//info/lfs/locks']
  for (const name of ['owner/lfs-private', 'owner/missing'])
    for (const path of paths)
      for (const credential of ['', authorization, basic('x', 'cst_unknown')])
        for (const method of ['GET', 'POST']) {
          const headers = { ...(credential && { authorization: credential }) }
          const body = method === 'POST' ? { body: '{"operation":"upload"}' } : {}
          const answer = await fetch(`${server.url}/${name}${path}`, { method, headers, ...body })
          answers.add(`${answer.status} ${answer.headers.get('content-type')} ${await answer.text()}`)
        }
  t.equal(answers.size, 1)
  t.match(
    [...answers][0],
    /^501 application\/vnd\.git-lfs\+json; charset=utf-8 \{"message":"Git LFS is not supported here\./,
  )
  t.equal((await fetch(`${server.url}/settings/x/info/lfs/locks`)).status, 404)
  t.equal(await server.store.failures.countBlocked({ limit: 1, window: 300 }), 0, 'no failure is counted')
})

/** Returns the name of a file of the latest commit that is larger than the others. */
async function fileOf(checkout: string): Promise<string> {
  const lines = (await git(checkout, ['ls-tree', '-l', 'HEAD'])).split('\n')
  const size = (line: string) => Number(line.split(/\s+/)[3])
  return lines.toSorted((one, other) => size(other) - size(one))[0]?.split('\t')[1] ?? ''
}
