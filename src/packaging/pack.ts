import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  globSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { publish } from '../util/durable.ts'

/**
 * Packs `dist/commit-status-server` for each processor, complete: with the locked dependencies and
 * Node.js, so that npm installs the file without a registry, and tar without npm. Beside each are
 * what it contains (CycloneDX), and the hashes of all.
 */
const root = resolve(import.meta.dirname, '../..')
const dist = join(root, 'dist')
// npm calls what is in it after this folder.
const folder = join(dist, 'commit-status-server')
const modules = join(folder, 'node_modules')
/**
 * What no program reads: TypeScript, source maps, tests with their private keys, and what native
 * modules are compiled from.
 */
const UNUSED = [
  '**/*.{ts,mts,cts,map,c,h}',
  '**/node_modules/{*,@*/*}/test',
  'node_modules/node-linux-*/{include,share,CHANGELOG.md,README.md}',
  'node_modules/better-sqlite3/{binding.gyp,deps,src}',
]

/** Runs npm in the folder. @returns what it printed */
function npm(...args: string[]): string {
  return execFileSync('npm', [...args, '--loglevel=error'], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

/**
 * What is read here of the project's manifest, which has Node.js as optional packages, and of the
 * one that `build.ts` wrote.
 */
interface PackageManifest {
  name: string
  version: string
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

function readPackage(from: string): PackageManifest {
  return JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as PackageManifest
}

function writeManifest(manifest: object): void {
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}

/**
 * Returns what the folder contains, without the time and the random number that npm adds: the same
 * for the same commit.
 */
function listContents(): string {
  const list = JSON.parse(npm('sbom', '--sbom-format=cyclonedx')) as { metadata: object }
  const stable = { ...list, serialNumber: undefined, metadata: { ...list.metadata, timestamp: undefined } }
  return `${JSON.stringify(stable, null, 2)}\n`
}

const { optionalDependencies } = readPackage(root)
const manifest = readPackage(folder)

for (const file of globSync(['commit-status-server-*', 'SHA256SUMS'], { cwd: dist })) rmSync(join(dist, file))
copyFileSync(join(root, 'package-lock.json'), join(folder, 'package-lock.json'))
for (const cpu of ['x64', 'arm64']) {
  const node = `node-linux-${cpu}`
  const ownNode = { [node]: optionalDependencies[node] }
  // npm installs what another processor needs only if it is optional.
  writeManifest({ ...manifest, optionalDependencies: ownNode })
  npm('ci', '--ignore-scripts', '--prefer-offline', '--os=linux', `--cpu=${cpu}`, '--libc=glibc')
  if (!existsSync(join(modules, node, 'bin/node')))
    throw new Error(`npm has not installed ${node}: use npm 10 or later`)
  const name = `${manifest.name}-${manifest.version}-linux-${cpu}`
  writeFileSync(join(dist, `${name}.cdx.json`), listContents())
  for (const path of globSync(UNUSED, { cwd: folder }))
    rmSync(join(folder, path), { recursive: true, force: true })
  for (const file of readdirSync(join(modules, 'better-sqlite3/prebuilds')))
    if (file !== `linux-${cpu}.node`) rmSync(join(modules, 'better-sqlite3/prebuilds', file))
  // Whoever unpacks it as root gives it to all accounts, whatever the umask was here.
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isSymbolicLink()) chmodSync(path, statSync(path).mode & 0o100 ? 0o755 : 0o644)
  }
  const dependencies = { ...manifest.dependencies, ...ownNode }
  const platform = { os: ['linux'], cpu: [cpu], libc: ['glibc'] }
  writeManifest({ ...manifest, ...platform, dependencies, bundleDependencies: Object.keys(dependencies) })
  const packed = npm('pack', '--pack-destination', dist).trim()
  await publish(join(dist, packed), join(dist, `${name}.tgz`))
}
const packages = globSync('commit-status-server-*', { cwd: dist }).sort()
const sums = packages.map((file) => `${hash('sha256', readFileSync(join(dist, file)))}  ${file}\n`)
writeFileSync(join(dist, 'SHA256SUMS'), sums.join(''))
