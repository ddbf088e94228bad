import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createCacheFolder } from '../../src/bin/compile-cache.ts'
import { temporaryFolder } from '../helpers/databases.ts'

const self = process.geteuid?.() ?? 0
/** Another account, whose folders only root can create. */
const OTHER = 65_533

t.test('the second start of a program takes what the first has compiled', async (t) => {
  const HOME = temporaryFolder(t)
  const { NODE_COMPILE_CACHE, ...environment } = process.env
  const start = (program: string, variables: NodeJS.ProcessEnv) => {
    const { status, stderr } = spawnSync(process.execPath, [`src/bin/${program}.ts`, '--help'], {
      env: { ...environment, HOME, NODE_DEBUG_NATIVE: 'COMPILE_CACHE', ...variables },
      encoding: 'utf8',
      maxBuffer: 1e8,
    })
    return status === 0 ? stderr : String(status)
  }
  for (const [program, part] of [
    ['commit-status-admin', 'cli/commands/user'],
    ['commit-status-server', 'app'],
  ] as const) {
    const accepted = new RegExp(`/src/${part}\\.ts was accepted`)
    t.notMatch(start(program, {}), accepted)
    t.match(start(program, {}), accepted)
  }
  const folder = join(HOME, '.cache/commit-status-server')
  t.equal(statSync(folder).mode & 0o777, 0o700)

  const other = { HOME: temporaryFolder(t), NODE_COMPILE_CACHE: folder }
  t.match(start('commit-status-admin', other), /was accepted/, 'another folder')
  t.same(readdirSync(other.HOME), [])
  t.match(start('commit-status-admin', { HOME: '/nonexistent' }), '', 'without a home')
  t.notOk(existsSync('/nonexistent'))
})

t.test('nothing is kept where another account could put its own code', async (t) => {
  for (const [name, prepare] of [
    ['the home', (home: string) => chmodSync(home, 0o777)],
    ['its cache', (home: string) => createFolder(home, '.cache', 0o777)],
    ['the folder, by a group', (home: string) => createFolder(home, '.cache/commit-status-server', 0o770)],
    ['what is in it', (home: string) => createFolder(home, '.cache/commit-status-server/v24', 0o777)],
    [
      'a folder above the one that it leads to',
      (home: string) => {
        createFolder(home, 'shared', 0o777)
        createFolder(home, 'shared/cache', 0o700)
        symlinkSync('shared/cache', join(home, '.cache'))
      },
    ],
  ] as const) {
    const home = temporaryFolder(t)
    prepare(home)
    t.equal(createCacheFolder(home, self), null, name)
  }
  const home = temporaryFolder(t)
  t.equal(createCacheFolder(home, self + 1), null)
  t.same(readdirSync(home), [], 'nothing is created in the home of somebody else')
  t.equal(createCacheFolder(home, self), join(home, '.cache/commit-status-server'))
})

t.test('nothing is kept in what belongs to another account', async (t) => {
  for (const name of ['.cache', '.cache/commit-status-server', '.cache/commit-status-server/v24']) {
    const home = temporaryFolder(t)
    createFolder(home, name, 0o700)
    // Only root can give files away.
    if (self === 0) chownSync(join(home, name), OTHER, OTHER)
    t.equal(createCacheFolder(home, self) === null, self === 0, name)
  }
})

function createFolder(home: string, name: string, mode: number): void {
  mkdirSync(join(home, name), { recursive: true })
  chmodSync(join(home, name), mode)
}
