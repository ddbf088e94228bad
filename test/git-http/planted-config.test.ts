import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { inspectRepository } from '../../src/git/repository.ts'
import { createLogger } from '../../src/ops/logger.ts'
import { programKeys } from '../git/program-keys.ts'
import { runCli } from '../helpers/cli.ts'
import { postgres } from '../helpers/databases.ts'
import { startServer, type TestServer } from '../helpers/server.ts'
import { basic, commit, createCheckout, git, tryGit, workFolder } from './client.ts'

const NAME = 'owner/planted'
/** Keys for which a repository is refused. */
const REFUSED = ['gc.recentObjectsHook', 'hook.<friendly-name>.command', 'uploadpack.packObjectsHook']
/** Values for the placeholders of a key. */
const SUBSECTIONS: Record<string, string> = {
  'alias.*': 'http-backend upload-pack receive-pack log config cat-file rev-parse maintenance gc rev-list',
  'credential.<url>.helper': 'http://127.0.0.1 https://example.org',
  // If this key is set, git ignores the others of the same driver.
  'filter.<driver>.process': 'y',
  'gpg.<format>.program': 'openpgp x509 ssh',
  'pager.<cmd>': 'http-backend upload-pack receive-pack log config cat-file rev-parse maintenance gc',
  'protocol.<name>.allow': 'ext file git http https ssh',
  'remote.<name>.url': 'x evil',
  'url.<base>.insteadOf': 'ext::false',
  'url.<base>.pushInsteadOf': 'ext::false',
}

/** Creates programs that leave a file when they run: one for each key, and hooks. */
function plantPrograms(t: Test) {
  const folder = realpathSync(workFolder(t))
  const ran = join(folder, 'ran')
  for (const name of [ran, join(folder, 'hooks')]) mkdirSync(name)
  const write = (path: string, name: string) => {
    const script = `#!/bin/sh\n: > '${join(ran, name)}'\n`
    writeFileSync(path, script, { mode: 0o755 })
  }
  const hooks =
    'pre-receive update post-receive post-update reference-transaction proc-receive push-to-checkout pre-auto-gc post-checkout post-index-change fsmonitor-watchman'
  for (const hook of hooks.split(' ')) write(join(folder, 'hooks', hook), `hook ${hook}`)
  return {
    /** Returns a value for a key that names its own program. */
    valueOf(documented: string): string {
      const name = documented.replaceAll(/[^\w.-]/g, '_')
      write(join(folder, name), name)
      return programKeys[documented]?.(join(folder, name)) ?? ''
    },
    /** Returns the programs that have run so far. */
    ran: () => readdirSync(ran).sort(),
  }
}

/** Returns a key with each value of its placeholder. */
function concreteKeys(documented: string): string[] {
  const subsections = SUBSECTIONS[documented]?.split(' ') ?? ['x']
  return subsections.map((subsection) => documented.replace(/<[^>]*>|\*/, subsection))
}

/**
 * Creates a checkout with everything that programs need to run: a work tree that a push would update, attributes that name
 * drivers, an alternate with refs, a promisor remote with a missing object, packs for a garbage collection.
 */
async function createVictim(t: Test) {
  const base = await createCheckout(t, 'nowhere')
  const folder = await createCheckout(t, 'nowhere')
  writeFileSync(join(folder, '.gitattributes'), '* filter=x diff=x merge=x\nfile-* filter=y\n')
  await git(folder, ['add', '.gitattributes'])
  await git(folder, ['commit', '--quiet', '--all', '--message', 'Attributes'])
  await git(folder, ['reset', '--quiet', '--hard'])
  await git(folder, ['repack', '-d', '-q'])
  await git(folder, ['branch', 'other'])
  const { path } = await inspectRepository(folder)
  writeFileSync(join(path, 'objects/info/alternates'), `${join(base, '.git/objects')}\n`)
  const tree = `100644 blob ${'1'.repeat(40)}\tmissing\n`
  const promised = await git(folder, ['mktree', '--missing'], { input: tree })
  const broken = await git(folder, ['commit-tree', promised, '-m', 'Broken'])
  await git(folder, ['update-ref', 'refs/heads/broken', broken])
  const settings = {
    'core.repositoryFormatVersion': '1',
    'extensions.partialClone': 'evil',
    'remote.evil.promisor': 'true',
    'remote.evil.url': 'ssh://127.0.0.1/x',
    'receive.denyCurrentBranch': 'updateInstead',
    'receive.advertisePushOptions': 'true',
    'receive.certNonceSeed': 'seed',
    'receive.unpackLimit': '1',
    'gc.autoPackLimit': '1',
    'core.worktree': folder,
    'log.showSignature': 'true',
    'maintenance.prefetch.enabled': 'true',
    'maintenance.strategy': 'gc',
  }
  for (const [key, value] of Object.entries(settings)) await git(path, ['config', key, value])
  return { folder, path }
}

/** Appends a setting to a file, in its own section. */
function plant(file: string, key: string, value: string): void {
  const [first, last] = [key.indexOf('.'), key.lastIndexOf('.')]
  const subsection = first === last ? '' : ` "${key.slice(first + 1, last)}"`
  appendFileSync(file, `[${key.slice(0, first)}${subsection}]\n\t${key.slice(last + 1)} = "${value}"\n`)
}

async function importAs(server: TestServer, path: string): Promise<void> {
  const { code, stderr } = await runCli(['repo', 'import', NAME, path], { DATA_DIR: server.dataDir })
  if (code !== 0) throw new Error(stderr)
}

t.test('no program that the configuration names is run', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  const programs = plantPrograms(t)
  const { folder, path } = await createVictim(t)
  for (const documented of Object.keys(programKeys).filter((key) => !REFUSED.includes(key))) {
    const value = programs.valueOf(documented)
    for (const key of concreteKeys(documented)) plant(join(path, 'planted'), key, value)
  }
  plant(join(path, 'config'), 'include.path', 'planted')
  const planted = await git(path, ['config', '--file', 'planted', '--name-only', '--list'])
  t.ok(planted.split('\n').length >= Object.keys(programKeys).length - REFUSED.length, 'git reads all keys')

  await importAs(server, path)
  const page = await fetch(`${server.url}/${NAME}`)
  t.equal(page.status, 200)
  t.match(await page.text(), 'Attributes', 'the log')
  const head = await git(path, ['rev-parse', 'HEAD'])
  t.equal((await server.report(NAME, head, { state: 'success' }, token)).status, 201)
  t.equal((await server.report(NAME, '1'.repeat(40), { state: 'success' }, token)).status, 404)
  t.equal((await server.report(NAME, '2'.repeat(40), { state: 'success' }, token)).status, 404)

  const url = `${server.url}/${NAME}.git`
  const clone = join(workFolder(t), 'clone')
  await git('/', ['clone', '--quiet', '--branch=main', '--single-branch', url, clone])
  t.not((await tryGit(clone, ['fetch', 'origin', 'broken'])).code, 0, 'the promised object is not fetched')
  // git collects garbage only if no object is missing.
  for (const file of ['refs/heads/broken', 'logs/refs/heads/broken']) rmSync(join(path, file))

  const options = { authorization: basic('x', token) }
  for (const turn of [1, 2]) {
    await commit(clone)
    const checkedOut = await tryGit(clone, ['push', 'origin', 'HEAD:main'], options)
    t.match(
      checkedOut.stderr,
      /remote rejected.*branch is currently checked out/,
      `${turn}: to the work tree`,
    )
    await git(clone, ['push', '--quiet', '--push-option=x', 'origin', `HEAD:topic-${turn}`], options)
    await tryGit(clone, ['push', 'origin', 'HEAD:refs/for/main'], options)
  }
  t.equal(await git(path, ['rev-parse', 'topic-2']), await git(clone, ['rev-parse', 'HEAD']))
  const packs = readdirSync(join(path, 'objects/pack')).filter((name) => name.endsWith('.pack'))
  t.ok(packs.length <= 2, `garbage was collected: ${packs.length} packs`)

  const signer = join(workFolder(t), 'gpg')
  const signature = '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'
  const script = `#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED \\n' >&2\nprintf -- '${signature}'\n`
  writeFileSync(signer, script, { mode: 0o755 })
  await git(clone, ['push', '--quiet', '--signed', 'origin', 'HEAD:signed'], {
    ...options,
    config: { 'gpg.program': signer },
  })
  t.same(programs.ran(), [])

  // Proves that the programs are planted correctly: without the server's settings git runs some of them.
  await commit(clone)
  await tryGit(clone, ['push', path, 'HEAD:main', 'HEAD:unguarded'])
  await tryGit(folder, ['status'])
  for (const name of ['core.alternateRefsCommand', 'core.fsmonitor', 'hook pre-receive'])
    t.ok(programs.ran().includes(name), `${name} among ${programs.ran()}`)
})

t.test('keys that no setting of a call can override are refused, at import and later', async (t) => {
  const log: string[] = []
  const logger = createLogger('error', { write: (line) => log.push(line) })
  const server = await startServer(t, { logger })
  const token = await server.createToken('owner')
  const programs = plantPrograms(t)
  const folder = await createCheckout(t, 'nowhere')
  const { path } = await inspectRepository(folder)
  const head = await git(path, ['rev-parse', 'HEAD'])
  const url = `${server.url}/${NAME}.git`
  const clone = join(workFolder(t), 'clone')
  const file = join(path, 'config')
  const harmless = readFileSync(file, 'utf8')

  const documented = [...REFUSED, 'receive.fsck.skipList', 'gc.repackFilterTo', 'brand-new.setting']
  const keys = documented.flatMap((name) => concreteKeys(name).map((key) => ({ name, key })))
  // An error names at most five keys.
  const groups = [keys.slice(0, 4), keys.slice(4)]
  for (const group of groups) {
    for (const { name, key } of group) plant(file, key, programs.valueOf(name))
    const { code, stderr } = await runCli(['repo', 'import', NAME, path], { DATA_DIR: server.dataDir })
    t.equal(code, 1)
    for (const { key } of group) t.match(stderr, `"${key.toLowerCase()}" in ${file}`)
    writeFileSync(file, harmless)
  }
  t.same(await server.store.repositories.list(), [])

  await importAs(server, path)
  await git('/', ['clone', '--quiet', url, clone])
  await commit(clone)
  const push = (branch: string) =>
    tryGit(clone, ['push', 'origin', `HEAD:${branch}`], { authorization: basic('x', token) })
  for (const { name, key } of keys) {
    plant(file, key, programs.valueOf(name))
    const answer = await server.report(NAME, head, { state: 'success' }, token)
    t.equal(answer.status, 503, key)
    t.notMatch(answer.body, /config|git|owner/i, 'the answer reveals nothing internal')
    t.equal((await server.read(NAME, head)).status, 503)
    t.equal((await fetch(`${server.url}/${NAME}`)).status, 503)
    t.match((await tryGit(clone, ['fetch'])).stderr, /503/)
    t.match((await push('topic')).stderr, /503/)
    writeFileSync(file, harmless)
    t.equal((await server.read(NAME, head)).status, 200, 'served again after the key was removed')
  }
  for (const group of groups) {
    for (const { name, key } of group) plant(file, key, programs.valueOf(name))
    const checked = await runCli(['check'], { DATA_DIR: server.dataDir })
    t.equal(checked.code, 1)
    for (const { key } of group) t.match(checked.stdout, `"${key.toLowerCase()}" in ${file}`)
    writeFileSync(file, harmless)
  }
  t.match(JSON.parse(log[0] ?? '').err.message, `"gc.recentobjectshook" in ${file}`)
  t.equal((await push('topic')).code, 0)
  t.equal((await server.report(NAME, head, { state: 'success' }, token)).status, 201)
  t.same(programs.ran(), [])
})

t.test('PostgreSQL also stores which repositories are imported', async (t) => {
  const server = await startServer(t, { database: postgres })
  const { path, commits } = await server.createRepository('owner/created')
  const [sha = ''] = commits
  await server.store.repositories.create({
    owner: 'owner',
    name: 'imported',
    visibility: 'public',
    objectFormat: 'sha1',
    path,
  })
  plant(join(path, 'config'), 'hook.x.command', 'program')
  for (const [name, status] of [
    ['owner/created', 200],
    ['owner/imported', 503],
  ] as const) {
    t.equal((await server.read(name, sha)).status, status)
    t.equal((await fetch(`${server.url}/${name}`)).status, status)
    t.equal((await fetch(`${server.url}/${name}.git/info/refs?service=git-upload-pack`)).status, status)
  }
})
