import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { recipeFiles } from '../web/pages/docs/recipes.ts'

/** What the published manifest takes from that of the project. */
interface ProjectManifest {
  name: string
  version: string
  description: string
  license: string
  type: string
  dependencies: Record<string, string>
}

/**
 * Builds `dist/commit-status-server`, to which `pack.ts` adds Node.js and the dependencies: the
 * compiled programs with everything that they import, in the same folders as here, since Node.js
 * strips no types below `node_modules`; the files that they read; the documents for operators; and
 * its own package.json, without workspaces and development packages.
 */
const root = resolve(import.meta.dirname, '../..')
const target = resolve(root, 'dist/commit-status-server')
/** The programs, and the megabytes of a semi-space of each: commands run where memory is short. */
const programs = { 'commit-status-server': 16, 'commit-status-admin': 2 }

rmSync(target, { recursive: true, force: true })
execFileSync(resolve(root, 'node_modules/.bin/tsc'), ['-p', import.meta.dirname], {
  stdio: ['ignore', 'inherit', 'inherit'],
})
const files = [
  'LICENSE',
  'CHANGELOG.md',
  'README.md',
  'src/ops/README.md',
  'src/ops/grafana-dashboard.json',
  'src/web/screenshots',
  'openapi.yaml',
  'generated/openapi.json',
  'src/web/assets',
  'src/git-http/push/hooks',
  'src/cli/completion',
  'clients/shell/commit-status',
  'clients/typescript/commit-status-client.tgz',
  'clients/typescript/README.md',
  'clients/typescript/SKILL.md',
  ...recipeFiles().map((name) => `clients/recipes/${name}`),
]
for (const path of files) cpSync(resolve(root, path), resolve(target, path), { recursive: true })

const launcher = readFileSync(resolve(import.meta.dirname, 'launcher'), 'utf8')
mkdirSync(resolve(target, 'bin'))
for (const [program, semiSpace] of Object.entries(programs)) {
  const script = launcher.replaceAll('PROGRAM', program).replace('=SEMI_SPACE', `=${semiSpace}`)
  writeFileSync(resolve(target, 'bin', program), script, { mode: 0o755 })
}

const project = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as ProjectManifest
const { name, version, description, license, type, dependencies } = project
// Without git or a clone, as in an unpacked archive, the commit is not known.
const { stdout } = spawnSync(
  'git',
  ['--git-dir=.git', 'describe', '--always', '--abbrev=40', '--exclude=*', '--dirty'],
  {
    cwd: root,
    encoding: 'utf8',
  },
)
const commit = stdout?.trim()
const manifest = {
  name,
  version,
  description,
  license,
  type,
  bin: Object.fromEntries(Object.keys(programs).map((program) => [program, `bin/${program}`])),
  dependencies,
  ...(commit && { gitHead: commit }),
}
writeFileSync(resolve(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
