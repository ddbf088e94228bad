import { execFile } from 'node:child_process'
import { globSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import tap from 'tap'
import {
  compileConsumer,
  execute,
  exercise,
  installNode20,
  npmEnvironment,
  pack,
} from '../../clients/typescript/test/helpers/package.ts'
import { startService } from '../../clients/typescript/test/helpers/service.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { git } from '../helpers/git.ts'
import { packServer, pathOf, useInstalled } from './parts/installed.ts'

/**
 * Has npm install both packages into empty folders: the server without a network and with nothing
 * else on its PATH, the client by the line of its README, used on Node.js 20 and 24 by consumers of
 * both kinds of module resolution. Also what other tools say about the client's package, and
 * whether the compiler takes the README's examples.
 */
const MOST_BYTES = 65_000_000
const run = promisify(execFile)
const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'))
const folder = realpathSync(temporaryFolder(tap))
tap.setTimeout(1_800_000)

const server = packServer()
const [, oldestGlibc = 0] =
  /with glibc 2\.(\d+) or later/.exec(readFileSync('src/ops/README.md', 'utf8'))?.map(Number) ?? []

for (const [cpu, machine] of Object.entries({ x64: 62, arm64: 183 })) {
  tap.test(`the server's package for ${cpu} is complete, and no more`, async (t) => {
    const file = server.replace(process.arch, cpu)
    t.comment(`${statSync(file).size} bytes`)
    t.ok(statSync(file).size < MOST_BYTES)
    await run('sha256sum', ['--check', 'SHA256SUMS'], { cwd: dirname(file) })
    const place = join(folder, cpu)
    await run('tar', ['--extract', '--file', file, '--strip-components=1', `--one-top-level=${place}`])
    const paths = globSync('**', { cwd: place })
    t.same(
      paths.filter((path) => /\.(ts|map|h|c)$|^(src\/codegen|test)\//.test(path)),
      [],
    )
    const binaries = paths.filter((path) => /\.node$|\/bin\/node$/.test(path))
    t.equal(binaries.length, 2, 'Node.js and SQLite')
    // `e_machine` of the ELF header.
    for (const path of binaries) {
      const binary = readFileSync(join(place, path))
      t.equal(binary.readUInt16LE(18), machine, path)
      for (const [, version = ''] of binary.toString('latin1').matchAll(/GLIBC_2\.(\d+)/g))
        t.ok(Number(version) <= oldestGlibc, `${path}: glibc 2.${version}`)
    }

    const { components, metadata, serialNumber } = readJson(file.replace(/tgz$/, 'cdx.json'))
    t.same([serialNumber, metadata.timestamp], [undefined, undefined], 'the same for the same commit')
    t.equal(metadata.component.name, 'commit-status-server')
    const { packages } = readJson('package-lock.json')
    const installed = paths.flatMap((path) => {
      const [, folder = '', name] =
        /^((?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+))\/package\.json$/.exec(path) ?? []
      return name ? [`${name}@${packages[folder].version}`] : []
    })
    t.same(
      new Set(installed),
      new Set(components.map((component: { 'bom-ref': string }) => component['bom-ref'])),
    )
  })
}

tap.test('whoever builds a commit gets the same bytes', async (t) => {
  const clone = join(folder, 'clone')
  const sums = readFileSync(join(dirname(server), 'SHA256SUMS'), 'utf8')
  // As by somebody else, elsewhere.
  const commands = `umask 077
    git clone --quiet "$1" "$2" && cd "$2"
    npm ci --prefer-offline --no-audit --no-fund --silent
    npm run --silent package`
  await run('sh', ['-ec', commands, 'sh', process.cwd(), clone], { env: npmEnvironment() })
  t.equal(readFileSync(join(clone, 'dist/SHA256SUMS'), 'utf8'), sums)
})

tap.test('npm installs the server without a network, and again', async (t) => {
  const prefix = join(folder, 'pre fix')
  const env = { HOME: folder, PATH: pathOf(folder, ['node', 'npm', 'sh', 'unshare']) }
  const place = join(prefix, 'lib/node_modules/commit-status-server')
  for (const when of ['new', 'again']) {
    await run('unshare', ['--net', 'npm', 'install', '--global', '--offline', '--prefix', prefix, server], {
      env,
    })
    const compare = ['--recursive', '--brief', '--exclude=.bin', join(folder, process.arch), place]
    t.equal((await run('diff', compare)).stdout, '', when)
  }
  await useInstalled(t, join(prefix, 'bin'), folder)
})

tap.test('the client', async (t) => {
  const [packed, node20] = await Promise.all([pack(folder), installNode20(folder)])
  const tarball = readFileSync(packed)
  const bytes = readFileSync('clients/typescript/commit-status-client.tgz')
  t.ok(tarball.equals(bytes), 'the same sources give the same bytes')
  const { messages } = await publint({ pack: { tarball: new Uint8Array(tarball).buffer }, strict: true })
  t.strictSame(messages, [])
  const analysis = await checkPackage(createPackageFromTarballData(new Uint8Array(tarball)))
  t.ok(analysis.types)
  // ESM only: resolution from CommonJS, and by the ways that know no `exports`, is out of scope.
  const problems = (analysis.types ? analysis.problems : []).filter(
    (problem) => !('resolutionKind' in problem) || !['node10', 'node16-cjs'].includes(problem.resolutionKind),
  )
  t.strictSame(problems, [])

  const { server, path, commits, token } = await startService(t, { commits: 2 })
  const readme = readFileSync(resolve('clients/typescript/README.md'), 'utf8')
  const [, install = ''] = /^```sh\n(npm install [\s\S]*?)^```$/m.exec(readme) ?? []
  const project = join(folder, 'project')
  git(folder, 'clone', '--quiet', path, project)
  git(project, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  t.match(install, 'npm install --global')
  await execute(project, 'sh', ['-ec', install.replace('--global', '--no-save')], {
    ...npmEnvironment(),
    COMMIT_STATUS_URL: server.url,
    npm_config_audit: 'false',
    npm_config_fund: 'false',
  })
  const examples = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)
  const sources = Object.fromEntries(examples.map((text, index) => [`example-${index}.ts`, text]))
  const folders = [
    await compileConsumer(project, 'nodenext', sources),
    await compileConsumer(project, 'bundler'),
  ]
  const consumers = folders.map((folder) => join(folder, 'consumer.js'))
  for (const [index, node] of [node20, dirname(process.execPath)].entries()) {
    const version = await execute(project, join(node, 'node'), ['--version'])
    t.match(version, index === 0 ? /^v20\./ : /^v24\./)
    const commit = commits[index] ?? ''
    await exercise(t, { project, node, consumers, url: server.url, token, commit })
  }
})
