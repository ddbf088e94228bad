import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { createProgram } from '../../src/cli/program.ts'
import { describeVariables } from '../../src/config.ts'
import { leaves, manPages } from '../../src/packaging/man-pages.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { startProcess } from '../helpers/process.ts'
import { useInstalled } from './installed.ts'

const run = promisify(execFile)
const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'))
/** Makes a process believe that it runs on an older Node.js. */
const OLD_NODE =
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})'

t.test('what is built serves with the dependencies that it names', async (t) => {
  const folder = temporaryFolder(t)
  const built = 'dist/commit-status-server'
  // Without the step that packs the client anew: another test does so in the same folder.
  await run(process.execPath, ['src/packaging/build.ts'])
  const { dependencies, devDependencies, workspaces } = readJson(`${built}/package.json`)
  t.same(dependencies, readJson('package.json').dependencies)
  t.same([devDependencies, workspaces], [undefined, undefined])

  // The proof "packages" also has it packed, with all dependencies and Node.js.
  const { stdout } = await run('npm', [
    'pack',
    '--json',
    '--silent',
    '--pack-destination',
    folder,
    `./${built}`,
  ])
  const [{ filename, files }] = JSON.parse(stdout)
  t.notMatch(files.map(({ path }: { path: string }) => path).join('\n'), /\.ts$|codegen|test/m)
  const installed = join(folder, 'in stalled')
  mkdirSync(installed)
  await run('tar', ['-xzf', join(folder, filename), '-C', installed, '--strip-components=1'])
  const locked = readJson('package-lock.json').packages
  for (const place of Object.keys(locked).filter((place) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(place))) {
    if (locked[place].dev || locked[place].link || !existsSync(place)) continue
    mkdirSync(dirname(join(installed, place)), { recursive: true })
    symlinkSync(resolve(place), join(installed, place))
  }
  await useInstalled(t, join(installed, 'bin'), folder)
})

t.test('the manual pages are valid and name every command and variable', async (t) => {
  for (const [path, page] of Object.entries(manPages())) {
    const names = path.includes('admin')
      ? leaves(createProgram({})).map(({ path }) => path.join(' '))
      : describeVariables().map(({ name }) => name)
    const { error, stdout, stderr } = spawnSync('groff', ['-man', '-ww', '-Tascii', '-P-cbou'], {
      input: page,
      encoding: 'utf8',
    })
    // Without groff, nothing shows them either.
    const text = (error ? page.replaceAll('\\-', '-') : stdout).replace(/ +/g, ' ')
    t.equal(stderr ?? '', '')
    for (const name of names) t.match(text, new RegExp(`^(?: |\\.SS "|\\.B )${name}\\b`, 'm'), path)
  }
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
  for (const { name } of describeVariables()) t.match(wrong.stderr(), `\n  ${name} `, 'a column of its own')
  const usage =
    /^Usage: commit-status-server[\s\S]*\n {2}PORT +port to listen on[^\n]*\n +\(default: 3000\)\n[\s\S]*\nAdminister it/m
  t.match(wrong.stderr(), /^unknown argument "user" \(expected none, --help or --version\)\n/)
  t.match(wrong.stderr(), usage)
  t.match(await run(process.execPath, [file, '--help']), { stdout: usage, stderr: '' })
})
