import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { npmEnvironment } from '../../clients/typescript/test/helpers/package.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { startProcess } from '../helpers/process.ts'

const run = promisify(execFile)
/** Makes a process believe that it runs on an older Node.js. */
const OLD_NODE =
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})'

/** A folder with links to these programs alone, to be the whole PATH. */
function pathOf(folder: string, programs: string[]): string {
  const path = join(folder, `path-${programs.length}`)
  mkdirSync(path)
  for (const program of programs) {
    const found = (process.env.PATH ?? '').split(':').find((place) => existsSync(join(place, program)))
    symlinkSync(join(found ?? '', program), join(path, program))
  }
  return path
}

t.test('what is packed can be installed into an empty folder, and serves with its own Node.js', async (t) => {
  const folder = temporaryFolder(t)
  // Without the step that packs the client anew: another test does so in the same folder.
  await run(process.execPath, ['src/packaging/build.ts'])
  const packed = await run('npm', ['pack', '--json', '--silent', '--pack-destination', folder, './dist'])
  const [{ filename, files }] = JSON.parse(packed.stdout)
  const paths: string[] = files.map(({ path }: { path: string }) => path)
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

  const prefix = join(folder, 'prefix')
  const install = ['install', '--global', '--prefix', prefix, '--prefer-offline', '--no-audit', '--no-fund']
  const forNpm = pathOf(folder, ['node', 'npm', 'sh', 'git'])
  await run('npm', [...install, '--silent', join(folder, filename)], {
    env: { ...npmEnvironment(), PATH: forNpm },
  })

  const bin = (name: string) => join(prefix, 'bin', name)
  // No Node.js of the system: the package brings the one that it runs on.
  const PATH = pathOf(folder, ['sh', 'git', 'dirname', 'readlink', 'sync'])
  const environment = { PATH, PORT: '0', DATA_DIR: join(folder, 'data'), LOG_LEVEL: 'info' }
  const admin = (...args: string[]) => run(bin('commit-status-admin'), args, { env: environment })
  const server = startProcess(t, bin('commit-status-server'), [], environment)
  const [, url = ''] = await server.printed(/^Listening on (http:.+)$/m)
  t.match(await (await fetch(`${url}/openapi.yaml`)).text(), /^openapi: /)
  t.match(await (await fetch(`${url}/`)).text(), /<!doctype html>/)
  const assets = ['style.css', 'swagger-ui.css', 'commit-status.sh', 'commit-status-client.tgz']
  for (const path of [...assets.map((name) => `/assets/${name}`), '/docs', '/readyz']) {
    t.equal((await fetch(url + path)).status, 200, path)
  }

  const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
  for (const program of ['commit-status-server', 'commit-status-admin']) {
    const { stdout } = await run(bin(program), ['--version'], { env: environment })
    t.equal(stdout, `${version}\n`, `${program} --version`)
  }
  await admin('user', 'create', 'alice')
  await admin('repo', 'create', 'alice/rocket')
  const { stdout: token } = await admin('token', 'create', 'alice')
  const report = await fetch(`${url}/api/v1/repos/alice/rocket/statuses/${'0'.repeat(40)}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token.trim()}`, 'content-type': 'application/json' },
    body: '{"state": "success"}',
  })
  t.equal(report.status, 404, 'there is no such commit, but everything else was right')
  t.match(await report.text(), /^\{"error":"[^"]+"\}$/)
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
  t.match(wrong.stderr(), /^commit-status-server takes no argument "user"\n/)
  t.match(wrong.stderr(), usage)
  t.match(await run(process.execPath, [file, '--help']), { stdout: usage, stderr: '' })
})
