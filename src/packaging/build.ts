import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type LockFile, type Manifest, shrinkwrap } from './shrinkwrap.ts'

/** What the published manifest takes from that of the project. */
interface ProjectManifest extends Manifest {
  description: string
  license: string
  type: string
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

/**
 * Builds the published package in `dist`, for `npm pack ./dist`: the compiled programs with everything that they import, in the
 * same folders as here, since Node.js strips no types below `node_modules`; the files that they read; the documents for
 * operators; and its own package.json and shrinkwrap, without workspaces and development packages.
 */
const root = resolve(import.meta.dirname, '../..')
const target = resolve(root, 'dist')
const programs = ['commit-status-server', 'commit-status-admin']

rmSync(target, { recursive: true, force: true })
execFileSync(resolve(root, 'node_modules/.bin/tsc'), ['-p', import.meta.dirname], {
  stdio: ['ignore', 'inherit', 'inherit'],
})
const files = [
  'LICENSE',
  'CHANGELOG.md',
  'README.md',
  'src/ops/README.md',
  'src/ops/partitioning.sql',
  'src/ops/grafana-dashboard.json',
  'src/web/screenshots',
  'openapi.yaml',
  'generated/openapi.json',
  'src/web/assets',
  'src/git-http/push/hooks',
  'clients/shell/commit-status',
  'clients/typescript/commit-status-client.tgz',
  'clients/typescript/README.md',
  'clients/recipes/README.md',
]
for (const path of files) cpSync(resolve(root, path), resolve(target, path), { recursive: true })

const launcher = readFileSync(resolve(import.meta.dirname, 'launcher'), 'utf8')
mkdirSync(resolve(target, 'bin'))
for (const program of programs) {
  writeFileSync(resolve(target, 'bin', program), launcher.replaceAll('PROGRAM', program), { mode: 0o755 })
}

// `npm ci`, which has installed the compiler, refuses files of another form.
const lock = JSON.parse(readFileSync(resolve(root, 'package-lock.json'), 'utf8')) as LockFile
const project = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as ProjectManifest
const { name, version, description, license, type, dependencies, optionalDependencies } = project
const manifest = {
  name,
  version,
  description,
  license,
  type,
  bin: Object.fromEntries(programs.map((program) => [program, `bin/${program}`])),
  os: ['linux'],
  dependencies,
  optionalDependencies,
}
writeFileSync(resolve(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
writeFileSync(
  resolve(target, 'npm-shrinkwrap.json'),
  `${JSON.stringify(shrinkwrap(lock, manifest), null, 2)}\n`,
)
