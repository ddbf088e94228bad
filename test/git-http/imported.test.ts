import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { inspectRepository } from '../../src/git/repository.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { replaceGit } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, tryGit, workFolder } from './client.ts'

/** Starts a server with an imported checkout, whose branch `main` is checked out, and clones it. */
async function setUp(t: Test) {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  const folder = await createCheckout(t, 'nowhere')
  const found = await inspectRepository(folder)
  await asAdministrator(server.store).repositories.create({
    owner: 'owner',
    name: 'r',
    visibility: 'public',
    ...found,
  })
  const clone = join(workFolder(t), 'clone')
  await git('/', ['clone', '--quiet', `${server.url}/owner/r.git`, clone])
  const push = (...refspecs: string[]) =>
    tryGit(clone, ['push', 'origin', ...refspecs], { authorization: basic('x', token) })
  return { server, token, folder, path: found.path, clone, push }
}

/** Creates a program that leaves a file with its name when it runs. */
function plantPrograms(t: Test) {
  const folder = realpathSync(workFolder(t))
  mkdirSync(join(folder, 'ran'))
  return {
    folder,
    plant(name: string): string {
      const program = join(folder, name)
      writeFileSync(program, `#!/bin/sh\n: > '${join(folder, 'ran', name)}'\n`, { mode: 0o755 })
      return program
    },
    ran: () => readdirSync(join(folder, 'ran')).sort(),
  }
}

t.test('git does not start in a repository that another account has put in its place', async (t) => {
  const { server, token, folder, path, push } = await setUp(t)
  const { call, store } = server
  const sha = await git(folder, ['rev-parse', 'HEAD'])
  chmodSync(join(path, 'config'), 0o666)
  const programs = plantPrograms(t)
  replaceGit(t, `${programs.plant('started')}; exec "$git" "$@"`)
  const answers = async () => {
    const found = await call('GET', `/api/v1/repos/owner/r/commits/${sha}/statuses`)
    const reported = await server.report('owner/r', sha, { state: 'success' }, token)
    const pages = [
      '/owner/r',
      `/owner/r/commits/${sha}`,
      '/owner/r/commits/main',
      `/owner/r/commits/${sha.slice(0, 8)}`,
    ]
    const shown = await Promise.all(pages.map((page) => fetch(server.url + page)))
    const refs = `${server.url}/owner/r.git/info/refs?service=git-upload-pack`
    const git = [await fetch(refs), await fetch(refs, { method: 'HEAD' })]
    return [found.status, reported.status, ...[...shown, ...git].map(({ status }) => status)]
  }
  for (const status of await answers()) t.equal(status, 503)
  t.same(programs.ran(), [])
  t.match((await push('HEAD:topic')).stderr, /remote: The service is temporarily unavailable/)
  chmodSync(join(path, 'config'), 0o600)
  t.notOk((await answers()).includes(503))
  chmodSync(join(path, 'config'), 0o666)
  const { id } = await store.repositories.get('owner', 'r')
  await asAdministrator(store).repositories.trustOwner(id)
  t.equal((await push('HEAD:topic')).code, 0, 'unless its owner is trusted')
})

/** Waits until git has combined packs, which it does beside the requests, and has ended. */
const collected = (path: string, most: number) =>
  until(() => {
    const packs = readdirSync(join(path, 'objects/pack')).filter((name) => name.endsWith('.pack'))
    return packs.length <= most && !existsSync(join(path, 'gc.pid'))
  })

t.test('no hook runs, and no program whose start a client could cause', async (t) => {
  const { server, token, folder, path, clone, push } = await setUp(t)
  const base = await createCheckout(t, 'nowhere')
  writeFileSync(join(path, 'objects/info/alternates'), `${join(base, '.git/objects')}\n`)
  const programs = plantPrograms(t)
  const hooks =
    'pre-receive update post-receive post-update reference-transaction proc-receive push-to-checkout pre-auto-gc'
  for (const hook of hooks.split(' ')) programs.plant(hook)
  writeFileSync(join(folder, '.gitattributes'), '* filter=x\n')
  await git(folder, ['add', '.gitattributes'])
  await git(folder, ['commit', '--quiet', '--message', 'Attributes'])
  const settings = {
    'core.hooksPath': programs.folder,
    'core.alternateRefsCommand': programs.plant('alternate-refs'),
    'core.fsmonitor': programs.plant('fsmonitor'),
    'filter.x.clean': programs.plant('filter'),
    'filter.x.smudge': programs.plant('filter'),
    'gpg.program': programs.plant('gpg'),
    'log.showSignature': 'true',
    'receive.certNonceSeed': 'seed',
    'receive.denyCurrentBranch': 'updateInstead',
    'receive.unpackLimit': '1',
    'gc.autoPackLimit': '1',
    'uploadpack.packObjectsHook': programs.plant('pack-objects'),
  }
  for (const [key, value] of Object.entries(settings)) await git(path, ['config', key, value])

  await git(clone, ['pull', '--quiet'])
  t.equal((await fetch(`${server.url}/owner/r`)).status, 200, 'the log')
  for (const turn of [1, 2]) {
    await commit(clone)
    t.match((await push('HEAD:main')).stderr, /remote rejected.*branch is currently checked out/)
    const pushed = await push(`HEAD:topic-${turn}`)
    t.equal(pushed.code, 0, pushed.stderr)
  }
  await collected(path, 2)
  const signer = join(workFolder(t), 'gpg')
  const signature = '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'
  const script = `#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED \\n' >&2\nprintf -- '${signature}'\n`
  writeFileSync(signer, script, { mode: 0o755 })
  const signed = await tryGit(clone, ['push', '--quiet', '--signed', 'origin', 'HEAD:signed'], {
    authorization: basic('x', token),
    config: { 'gpg.program': signer },
  })
  t.match(signed.stderr, 'HTTP 400')
  t.same(programs.ran(), [])

  // Proves that the programs are planted correctly: without the server's settings git runs them.
  await tryGit(clone, ['push', path, 'HEAD:unguarded'])
  await tryGit(folder, ['status'])
  for (const name of ['alternate-refs', 'fsmonitor', 'pre-receive'])
    t.ok(programs.ran().includes(name), `${name} among ${programs.ran()}`)
})

t.test('a push to a branch that is checked out is refused, also in a linked worktree', async (t) => {
  const { folder, clone, push } = await setUp(t)
  await git(folder, ['worktree', 'add', '--quiet', '-b', 'linked', join(workFolder(t), 'linked')])
  await git(folder, ['config', 'receive.denyCurrentBranch', 'ignore'])
  await commit(clone)
  for (const branch of ['main', 'linked'])
    t.match((await push(`HEAD:${branch}`)).stderr, /remote rejected.*branch is currently checked out/, branch)
  await git(folder, ['checkout', '--quiet', '-b', 'another'])
  t.equal((await push('HEAD:main')).code, 0, 'accepted after another branch was checked out')
})

t.test('the garbage collection after a push keeps objects of the index, reflogs and worktrees', async (t) => {
  const { folder, path, clone, push } = await setUp(t)
  const blob = (content: string) => git(folder, ['hash-object', '-w', '--stdin'], { input: content })
  const stage = async (at: string, name: string) => {
    writeFileSync(join(at, name), name)
    await git(at, ['add', name])
    return git(at, ['rev-parse', `:${name}`])
  }
  await git(folder, ['commit', '--quiet', '--allow-empty', '--message', 'In the log of main alone'])
  const logged = await git(folder, ['rev-parse', 'HEAD'])
  await git(folder, ['reset', '--quiet', '--hard', 'HEAD~'])
  const linked = join(workFolder(t), 'linked')
  await git(folder, ['worktree', 'add', '--quiet', '--detach', linked])
  await git(linked, ['commit', '--quiet', '--allow-empty', '--message', 'Where the worktree is alone'])
  const detached = await git(linked, ['rev-parse', 'HEAD'])
  rmSync(join(path, 'worktrees/linked/logs'), { recursive: true })
  const kept = [logged, detached, await stage(folder, 'staged'), await stage(linked, 'staged-there')]
  const garbage = await blob('unreferenced')
  const settings = {
    'gc.pruneExpire': 'now',
    'gc.autoPackLimit': '1',
    'gc.cruftPacks': 'false',
    'maintenance.strategy': 'gc',
    'receive.unpackLimit': '1',
  }
  for (const [key, value] of Object.entries(settings)) await git(folder, ['config', key, value])
  for (const turn of [1, 2, 3]) {
    await commit(clone)
    t.equal((await push(`HEAD:topic-${turn}`)).code, 0)
    // It prunes at once, also what another push is about to refer to.
    await collected(path, 1)
  }
  const has = async (id: string) => (await tryGit(folder, ['cat-file', '-e', id])).code === 0
  t.notOk(await has(garbage), 'garbage was collected')
  for (const id of kept) t.ok(await has(id), id)
  t.match(await git(folder, ['reflog', 'show', 'topic-3']), 'push', 'what was pushed is in the logs')
  t.equal((await tryGit(folder, ['fsck', '--strict'])).code, 0)
  t.notMatch(readdirSync(path).join(), /lock|tmp/)
})

t.test('packed refs and nested refs can be changed and deleted', async (t) => {
  const { folder, clone, push } = await setUp(t)
  const sha = await commit(clone)
  t.equal((await push('HEAD:a/b/c', 'HEAD:refs/tags/v1')).code, 0)
  await git(folder, ['pack-refs', '--all'])
  t.equal((await push(':a/b/c', 'HEAD:a/b')).code, 0)
  t.equal(await git(folder, ['rev-parse', 'a/b']), sha)
  t.equal((await push(':refs/tags/v1')).code, 0)
  t.equal(await git(folder, ['for-each-ref', '--format=%(refname)', 'refs/tags']), '')
})

t.test("HEAD is its owner's, also where settings let it follow pushes", async (t) => {
  const { folder, push } = await setUp(t)
  await git(folder, ['config', 'commitstatus.followPushes', 'true'])
  const { code, stderr } = await push(':main', 'HEAD:refs/heads/trunk')
  t.equal(code, 1)
  t.match(stderr, /remote: main is the default branch/)
  t.equal(await git(folder, ['symbolic-ref', 'HEAD']), 'refs/heads/main')
})

t.test('a shallow clone can be served and pushed to', async (t) => {
  const { server, token, folder } = await setUp(t)
  await commit(folder)
  const shallow = join(workFolder(t), 'shallow.git')
  await git('/', ['clone', '--quiet', '--bare', '--depth=1', `file://${folder}`, shallow])
  const found = await inspectRepository(shallow)
  await asAdministrator(server.store).repositories.create({
    owner: 'owner',
    name: 'shallow',
    visibility: 'public',
    ...found,
  })
  const clone = join(workFolder(t), 'clone')
  await git('/', ['clone', '--quiet', `${server.url}/owner/shallow.git`, clone])
  t.equal(await git(clone, ['rev-list', '--count', 'HEAD']), '1')
  await commit(clone)
  const options = { authorization: basic('x', token) }
  await git(clone, ['push', '--quiet', 'origin', 'HEAD:main'], options)
  t.equal(await git(shallow, ['rev-list', '--count', 'main']), '2')
})

t.test('a stale lock of a killed git does not block the next push', async (t) => {
  const { server, token, folder } = await setUp(t)
  const bare = realpathSync(workFolder(t))
  await git('/', ['clone', '--quiet', '--bare', folder, bare])
  const found = await inspectRepository(bare)
  await asAdministrator(server.store).repositories.create({
    owner: 'owner',
    name: 'bare',
    visibility: 'public',
    ...found,
  })
  const clone = join(workFolder(t), 'clone')
  await git('/', ['clone', '--quiet', `${server.url}/owner/bare.git`, clone])
  await commit(clone)
  writeFileSync(join(bare, 'HEAD.lock'), '')
  utimesSync(join(bare, 'HEAD.lock'), 1, 1)
  const options = { authorization: basic('x', token) }
  await git(clone, ['push', '--quiet', 'origin', 'HEAD:main'], options)
  t.equal(await git(bare, ['rev-parse', 'main']), await git(clone, ['rev-parse', 'HEAD']))
})

t.test('pipes in place of folders block no push to other repositories', async (t) => {
  const { server, token, path } = await setUp(t)
  const pipe = join(path, 'objects', 'ab')
  rmSync(pipe, { recursive: true, force: true })
  execFileSync('mkfifo', [pipe])
  chmodSync(pipe, 0o777)
  // Opens both ends, which lets go of everything that waits for the other one.
  t.teardown(() => closeSync(openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK)))
  const headers = { authorization: basic('x', token) }
  const refs = Array.from({ length: 4 }, () =>
    fetch(`${server.url}/owner/r.git/info/refs?service=git-receive-pack`, { headers })
      .then((response) => response.text())
      .catch(() => ''),
  )
  await Promise.race([Promise.all(refs), setTimeout(1_000)])

  await server.createRepository('owner/other')
  const clone = join(workFolder(t), 'other')
  await git('/', ['clone', '--quiet', `${server.url}/owner/other.git`, clone])
  await commit(clone)
  const pushed = tryGit(clone, ['push', 'origin', 'HEAD:topic'], { authorization: basic('x', token) })
  t.equal(
    await Promise.race([pushed.then(({ code }) => code), setTimeout(60_000, 'no answer', { ref: false })]),
    0,
  )
  t.equal(
    await Promise.race([Promise.all(refs).then(() => 'answers'), setTimeout(60_000, '', { ref: false })]),
    'answers',
  )
})

t.test('lock files outside of the repository are kept', async (t) => {
  const { path, push, clone } = await setUp(t)
  const elsewhere = realpathSync(workFolder(t))
  renameSync(join(path, 'refs'), join(elsewhere, 'refs'))
  symlinkSync(join(elsewhere, 'refs'), join(path, 'refs'))
  mkdirSync(join(elsewhere, 'refs', 'project'))
  const lock = join(elsewhere, 'refs', 'project', 'Cargo.lock')
  writeFileSync(lock, '')
  utimesSync(lock, 1, 1)
  await commit(clone)
  await push('HEAD:topic')
  t.ok(existsSync(lock))
})
