import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { startProcess } from '../helpers/process.ts'
import { packServer, useInstalled } from './installed.ts'

const run = promisify(execFile)
/** Makes a process believe that it runs on an older Node.js. */
const OLD_NODE =
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})'

t.test('what is packed serves with its own Node.js and the dependencies that it names', async (t) => {
  const folder = temporaryFolder(t)
  const { tarball, paths } = await packServer(folder)
  const { dependencies, devDependencies, workspaces } = JSON.parse(readFileSync('dist/package.json', 'utf8'))
  t.same(dependencies, JSON.parse(readFileSync('package.json', 'utf8')).dependencies)
  t.same([devDependencies, workspaces], [undefined, undefined])
  t.notMatch(paths.join('\n'), /\.ts$|codegen|test/m)
  const locked: Record<string, { dev?: boolean }> = JSON.parse(
    readFileSync('dist/npm-shrinkwrap.json', 'utf8'),
  ).packages
  t.same(
    Object.keys(locked).filter((place) => locked[place]?.dev),
    [],
    'nothing that only development needs',
  )

  // As npm would install it; the proof "packages" has npm do it.
  const installed = join(folder, 'installed')
  mkdirSync(installed)
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1'])
  for (const place of Object.keys(locked).filter((place) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(place))) {
    if (!existsSync(place)) continue
    mkdirSync(dirname(join(installed, place)), { recursive: true })
    symlinkSync(resolve(place), join(installed, place))
  }
  await useInstalled(t, join(installed, 'bin'), folder)
})

for (const program of ['commit-status-server', 'commit-status-admin']) {
  t.test(`${program} on an older Node.js says so in one sentence`, async (t) => {
    const file = resolve(`src/bin/${program}.ts`)
    const old = startProcess(t, process.execPath, ['--import', OLD_NODE, file], {
      DATA_DIR: temporaryFolder(t),
    })
    t.same([await old.ended, old.stdout()], [1, ''])
    t.match(old.stderr(), /^commit-status-server needs Node\.js 24\.7 or later; this is 20\.20\.2\. .*\n$/)
  })
}

t.test('the server takes no arguments', async (t) => {
  const file = resolve('src/bin/commit-status-server.ts')
  const wrong = startProcess(t, process.execPath, [file, 'user', 'list'])
  t.equal(await wrong.ended, 2)
  const usage =
    /^Usage: commit-status-server[\s\S]*\n {2}PORT +port to listen on[^\n]*\n +\(default: 3000\)\n[\s\S]*\nAdminister it/m
  t.match(wrong.stderr(), /^unknown argument "user" \(expected none, --help or --version\)\n/)
  t.match(wrong.stderr(), usage)
  t.match(await run(process.execPath, [file, '--help']), { stdout: usage, stderr: '' })
})
