import { execFileSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ObjectFormat } from '../../src/domain/commit-id.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { startServer } from '../helpers/server.ts'
import { basic, commit, createCheckout, git, tryGit, workFolder } from './client.ts'
import { beginRpc, pushBody } from './raw.ts'

const conversations: [objectFormat: ObjectFormat, version: string][] = [
  ['sha1', '0'],
  ['sha1', '1'],
  ['sha1', '2'],
  ['sha256', '2'],
]

t.test('clone, push, fetch, and a report on what was pushed', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  for (const [objectFormat, version] of conversations) {
    const name = `owner/${objectFormat}-${version}`
    await server.createRepository(name, { private: true, objectFormat, commits: 0 })
    const url = `${server.url}/${name}.git`
    const options = {
      credential: { username: 'ignored', password: token },
      config: { 'protocol.version': version },
    }
    const first = workFolder(t)
    await git(first, ['clone', '--quiet', url, 'empty'], options)
    const checkout = await createCheckout(t, url, objectFormat)
    await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], options)
    const pushed = await git(checkout, ['rev-parse', 'HEAD'])
    t.equal((await server.report(name, pushed, { state: 'success' }, token)).status, 201)

    const folder = workFolder(t)
    await git(folder, ['clone', '--quiet', url, 'clone'], options)
    const clone = join(folder, 'clone')
    t.equal(await git(clone, ['rev-parse', 'HEAD']), pushed, `${name}: cloned`)

    const next = await commit(checkout)
    await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], options)
    t.equal((await server.report(name, next, { state: 'failure' }, token)).status, 201)
    await git(clone, ['fetch', '--quiet'], options)
    t.equal(await git(clone, ['rev-parse', 'origin/main']), next, `${name}: fetched`)

    await git(folder, ['clone', '--quiet', '--depth=1', url, 'shallow'], options)
    t.equal(await git(join(folder, 'shallow'), ['rev-list', '--count', 'HEAD']), '1')
    await git(join(folder, 'shallow'), ['fetch', '--quiet', '--unshallow'], options)
    t.equal(await git(join(folder, 'shallow'), ['rev-list', '--count', 'HEAD']), '2')
  }
})

t.test('an empty repository advertises its object format', async (t) => {
  const server = await startServer(t)
  await server.createRepository('owner/empty', { objectFormat: 'sha256', commits: 0 })
  const answer = await fetch(`${server.url}/owner/empty.git/info/refs?service=git-upload-pack`, {
    headers: { 'git-protocol': 'version=2' },
  })
  t.equal(answer.headers.get('content-type'), 'application/x-git-upload-pack-advertisement')
  t.match(await answer.text(), /object-format=sha256/)
})

t.test('compressed fetch requests and chunked pushes are accepted', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  await server.createRepository('owner/chunks', { commits: 0 })
  const url = `${server.url}/owner/chunks.git`
  const options = { authorization: basic(token, ''), config: { 'http.postBuffer': '65536' } }
  const checkout = await createCheckout(t, url)
  const main = await commit(checkout, 200_000)
  // git compresses requests of more than 1,024 bytes. Requesting this many branches exceeds that.
  const branches = Array.from({ length: 60 }, (_, index) => index)
  const stream = branches.map(
    (index) =>
      `commit refs/heads/b${index}\ncommitter A <a@example.org> ${1_700_000_000 + index} +0000\ndata 1\n.\nfrom ${main}\n\n`,
  )
  await git(checkout, ['fast-import', '--quiet'], { input: stream.join('') })
  const trace = join(workFolder(t), 'trace')
  await git(checkout, ['push', '--quiet', 'origin', '--all'], {
    ...options,
    env: { GIT_TRACE_CURL: trace, GIT_TRACE_CURL_NO_DATA: '1' },
  })
  t.match(execFileSync('cat', [trace], { encoding: 'utf8' }), /Transfer-Encoding: chunked/i)
  const folder = workFolder(t)
  await git(folder, ['clone', '--quiet', url, 'clone'], {
    env: { GIT_TRACE_CURL: trace, GIT_TRACE_CURL_NO_DATA: '1' },
  })
  t.match(execFileSync('cat', [trace], { encoding: 'utf8' }), /Content-Encoding: gzip/i)
  t.equal(await git(join(folder, 'clone'), ['rev-parse', 'origin/main']), main)
})

t.test('an imported .git of another, trusted owner without a work tree can be used', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  const checkout = await createCheckout(t, 'nowhere')
  const path = join(checkout, '.git')
  await git(checkout, ['config', 'core.worktree', '/gone'])
  if (process.getuid?.() === 0) chownSync(path, 12345, 12345)
  await asAdministrator(server.store).repositories.create({
    owner: 'owner',
    name: 'imported',
    visibility: 'public',
    objectFormat: 'sha1',
    path,
    trustOwner: true,
  })
  const folder = workFolder(t)
  await git(folder, ['clone', '--quiet', `${server.url}/owner/imported.git`, 'clone'])
  const clone = join(folder, 'clone')
  const pushed = await commit(clone)
  await git(clone, ['push', '--quiet', 'origin', 'HEAD:topic'], { authorization: `Bearer ${token}` })
  t.equal((await server.report('owner/imported', pushed, { state: 'success' }, token)).status, 201)
})

t.test('a malformed object is refused and not stored', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  const { path } = await server.createRepository('owner/broken', { commits: 0 })
  const checkout = await createCheckout(t, `${server.url}/owner/broken.git`)
  const tree = await git(checkout, ['rev-parse', 'HEAD^{tree}'])
  const bad = await git(checkout, ['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], {
    input: `tree ${tree}\nauthor A\ncommitter A\n\nmessage\n`,
  })
  const options = { authorization: basic('x', token) }
  const { code, stderr } = await tryGit(checkout, ['push', 'origin', `${bad}:refs/heads/main`], options)
  t.not(code, 0)
  t.match(stderr, /missingEmail|unpack/)
  t.not((await tryGit(path, ['cat-file', '-e', bad])).code, 0)
  t.equal((await server.report('owner/broken', bad, { state: 'success' }, token)).status, 404)
})

t.test('a push that cannot be synced to disk is not acknowledged', async (t) => {
  const server = await startServer(t)
  const authorization = basic('x', await server.createToken('owner'))
  const { path } = await server.createRepository('owner/unsynced', { commits: 0 })
  const url = `${server.url}/owner/unsynced.git`
  const checkout = await createCheckout(t, url)
  const id = await git(checkout, ['rev-parse', 'HEAD'])
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main', 'HEAD:topic'], { authorization })

  // A folder that can be neither opened nor synced. git itself does not need it.
  const info = join(path, 'objects/info')
  rmSync(info, { recursive: true, force: true })
  symlinkSync('info', info)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  const command = `${id} ${'0'.repeat(40)} refs/heads/topic`
  request.end(pushBody([command], ' report-status', Buffer.alloc(0)))
  const outcome = await answer.then(
    ({ status, body }) => `${status} ${body}`,
    (error) => String(error),
  )
  t.match(outcome, /^503 /)
  t.equal(
    (await tryGit(path, ['rev-parse', '--verify', 'topic'])).code,
    128,
    'git itself has deleted the branch',
  )
  const again = await tryGit(checkout, ['push', 'origin', 'HEAD:main'], { authorization })
  t.not(again.code, 0)
  t.notMatch(again.stderr, /up-to-date/, 'the list of refs does not acknowledge the push either')
  rmSync(info)
  t.match(await tryGit(checkout, ['push', 'origin', 'HEAD:main'], { authorization }), {
    code: 0,
    stderr: /up-to-date/,
  })
})

t.test('a stale lock left by a power cut does not block pushes', async (t) => {
  const server = await startServer(t)
  const authorization = basic('x', await server.createToken('owner'))
  const { path } = await server.createRepository('owner/locked', { commits: 0 })
  const checkout = await createCheckout(t, `${server.url}/owner/locked.git`)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main', 'HEAD:group/old'], { authorization })
  await git(path, ['pack-refs', '--all'])
  mkdirSync(join(path, 'refs/heads/group'), { recursive: true })
  const locks = ['HEAD.lock', 'packed-refs.lock', 'packed-refs.new', 'refs/heads/main.lock']
  const others = ['refs/heads/group/held.lock', 'config.lock']
  for (const name of [...locks, ...others]) writeFileSync(join(path, name), '')
  // config.lock is old too, but does not lock a ref.
  for (const name of [...locks, 'config.lock']) utimesSync(join(path, name), 1, 1)

  await commit(checkout)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main', ':group/old'], { authorization })
  t.same(
    locks.filter((name) => existsSync(join(path, name))),
    [],
  )
  for (const name of others) t.ok(existsSync(join(path, name)), `${name} is not removed`)
  const held = await tryGit(checkout, ['push', 'origin', 'HEAD:group/held'], { authorization })
  t.match(held.stderr, /held\.lock': File exists/, 'a recent lock is respected')
})

t.test('replacement refs do not change the objects that are served', async (t) => {
  const server = await startServer(t)
  const { path, commits } = await server.createRepository('owner/replaced', { commits: 2 })
  const [older = '', newer = ''] = commits
  await git(path, ['replace', newer, older])
  const folder = workFolder(t)
  await git(folder, ['clone', '--quiet', `${server.url}/owner/replaced.git`, 'clone'])
  t.equal(await git(join(folder, 'clone'), ['rev-list', '--count', newer]), '2')
})
