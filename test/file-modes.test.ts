import { execFileSync } from 'node:child_process'
import { appendFileSync, lstatSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createToken, hashToken } from '../src/auth/token.ts'
import { inspectRepository } from '../src/git/repository.ts'
import { openStore, type StoreOptions } from '../src/store/store.ts'
import { basic, commit, createCheckout, git } from './git-http/client.ts'
import { asAdministrator } from './helpers/changes.ts'
import { runCli } from './helpers/cli.ts'
import { sqlite, temporaryFolder } from './helpers/databases.ts'
import { startInstance } from './helpers/instance.ts'
import { startProcess } from './helpers/process.ts'

// The usual umask of a shell, which lets everybody read. The processes under test inherit it.
const before = process.umask(0o022)
t.teardown(() => process.umask(before))

/** Returns the octal mode of everything in a folder. */
function modesIn(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
  const modeOf = (name: string) => [name, (lstatSync(join(folder, name)).mode & 0o7777).toString(8)]
  return Object.fromEntries(['.', ...names].map(modeOf))
}

/** Starts a server process, opens its database, and creates a token of the user `owner`. */
async function start(t: Test, options: StoreOptions) {
  const instance = await startInstance(t, options, { LOG_LEVEL: 'info' })
  const store = await openStore(options)
  t.teardown(() => store.close())
  const { id: userId } = await asAdministrator(store).users.create('owner')
  const token = createToken()
  const hash = hashToken(token)
  await asAdministrator(store).tokens.create({
    userId,
    name: 'test',
    prefix: '',
    hash,
    scopes: ['repo'],
    expiresAt: null,
  })
  return { ...instance, store, token, credential: { authorization: basic('x', token) } }
}

t.test('files created by the server and the CLI are private', async (t) => {
  const given = await sqlite.create(t)
  const dataDir = join(realpathSync(given.dataDir), 'new', 'data')
  const options = { ...given, dataDir }
  const { url, report, log, token, credential } = await start(t, options)
  const cli = async (...args: string[]) => {
    const command = startProcess(t, process.execPath, ['src/cli/main.ts', ...args], { DATA_DIR: dataDir })
    t.equal(await command.ended, 0, args.join(' '))
    t.notMatch(command.stderr(), 'warning')
  }
  await cli('repo', 'create', 'owner/repo')
  const checkout = await createCheckout(t, `${url}/owner/repo.git`)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], credential)
  const sha = await git(checkout, ['rev-parse', 'HEAD'])
  t.equal((await report('owner/repo', sha, { state: 'success' }, token)).status, 201)
  await cli('backup', join(dataDir, 'backups'))

  const modes = modesIn(join(dataDir, '..'))
  const found = Object.keys(modes)
  const copied = ['commit-status.db-shm', 'backups/lock', 'backups/repositories/1.sha1.git/packed-refs']
  for (const name of ['repositories/1.git/refs/heads/main', ...copied])
    t.ok(found.includes(join('data', name)), name)
  t.same(
    found.filter((name) => !/^[4-7]00$/.test(modes[name] ?? '')),
    [],
  )
  t.notMatch(log.join('\n'), 'chmod')
})

t.test('files open to others cause a warning at each start, with the command that fixes it', async (t) => {
  const given = await sqlite.create(t)
  const dataDir = realpathSync(given.dataDir)
  const options = { ...given, dataDir }
  const cli = (...args: string[]) => runCli(args, { DATA_DIR: dataDir })
  t.match(await cli('repo', 'create', 'a/b'), { code: 0, stderr: /^a\/b is public/ })
  execFileSync('chmod', ['-R', 'go+rX', dataDir])

  const fix = `chmod go-rwx -- '${dataDir}'`
  const { stderr, code } = await cli('repo', 'list')
  t.equal(code, 0)
  t.match(stderr, new RegExp(`^warning: .* ${fix}\n$`))
  const { log } = await startInstance(t, options, { LOG_LEVEL: 'warn' })
  const [warning, ...others] = log.map((line) => JSON.parse(line))
  t.match(warning, { level: 40, command: fix, msg: fix })
  t.same(others, [])

  execFileSync('sh', ['-c', warning.command])
  t.equal((await cli('repo', 'list')).stderr, '', 'no warning once fixed')
  t.equal(statSync(dataDir).mode & 0o777, 0o700)
})

t.test('what is pushed to an imported repository has the modes of its core.sharedRepository', async (t) => {
  const { url, store, credential } = await start(t, await sqlite.create(t))
  for (const shared of ['false', 'group', '0640']) {
    const folder = temporaryFolder(t)
    const [served, own] = [join(folder, 'served.git'), join(folder, 'own.git')]
    const asServer = (...args: string[]) =>
      execFileSync('sh', ['-c', 'umask 077 && exec "$@"', 'sh', ...args], { cwd: folder, stdio: 'pipe' })
    asServer('git', 'init', '--quiet', '--bare', `--shared=${shared}`, served)
    // As the server sets for its pushes: each is kept as a pack.
    appendFileSync(join(served, 'config'), '[gc]\n\tauto = 0\n[receive]\n\tunpackLimit = 1\n')
    asServer('cp', '-a', served, own)

    const name = `repo-${shared}`
    const found = await inspectRepository(served)
    await asAdministrator(store).repositories.create({
      owner: 'owner',
      name,
      visibility: 'public',
      trustOwner: true,
      ...found,
    })
    const checkout = await createCheckout(t, `${url}/owner/${name}.git`)
    for (const branch of ['main', 'deep/er/topic']) {
      await commit(checkout)
      const refspec = `HEAD:refs/heads/${branch}`
      await git(checkout, ['push', '--quiet', 'origin', refspec], credential)
      asServer('git', '-C', checkout, 'push', '--quiet', own, refspec)
    }
    const modes = modesIn(served)
    t.equal(/[1-7].$/.test(modes['refs/heads/deep/er/topic'] ?? ''), shared !== 'false', shared)
    t.same(modes, modesIn(own), `${shared}: as git alone gives them`)
  }
})
