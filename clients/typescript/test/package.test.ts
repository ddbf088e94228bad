import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, posix, relative, resolve } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { runLines } from '../../../test/helpers/cli.ts'
import { git } from '../../../test/helpers/git.ts'
import { execute, exercise, unpack } from './helpers/package.ts'
import { startService } from './helpers/service.ts'

const client = resolve(import.meta.dirname, '..')
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'package-')))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const node24 = dirname(process.execPath)
/** Packed by "npm run prepare", which is to run again after a change. */
const tarball = join(client, 'commit-status-client.tgz')
if (!existsSync(tarball)) throw new Error(`${tarball} is missing. Run "npm run prepare".`)
const { server, path, token } = await startService(t, { commits: 2 })
const project = join(folder, 'project')
git(folder, 'clone', '--quiet', path, project)
git(project, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
const sha = git(project, 'rev-parse', 'HEAD')
const place = await unpack(tarball, project)
const packed = readdirSync(place, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(place, join(entry.parentPath, entry.name)))
  .sort()

t.test('the tarball holds what is needed and nothing else', async (t) => {
  // Small enough for each job of a CI system to download, with the worker in it.
  t.ok(statSync(tarball).size < 90 * 1024, `${statSync(tarball).size} bytes`)
  const declarations = packed.filter((path) => path.endsWith('.d.ts'))
  const scripts = packed.filter((path) => path.endsWith('.js'))
  const others = packed.filter((path) => !declarations.includes(path) && !scripts.includes(path))
  t.strictSame(others, ['LICENSE', 'README.md', 'SKILL.md', 'commit-status-work.service', 'package.json'])

  const read = (path: string) => readFileSync(join(place, path), 'utf8')
  t.strictSame(
    declarations,
    reachable('dist/index.d.ts', read).sort(),
    'only declarations that the types need',
  )
  const library = reachable('dist/index.js', read)
  t.strictSame(scripts, [...new Set([...library, ...reachable('dist/cli/main.js', read)])].sort())
  for (const path of library)
    t.notMatch(read(path), /\bnode:|\bprocess\b|\bBuffer\b/, `${path}: web APIs alone`)
})

t.test('CommonJS loads it, as the README says', async (t) => {
  const script = "console.log(typeof require('@commit-status/client').createClient)"
  t.equal(await execute(project, process.execPath, ['--eval', script]), 'function\n')
})

t.test('the tarball holds what the sources give', async (t) => {
  const { config } = ts.readConfigFile(join(client, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, client)
  for (const path of packed) {
    const [, name, ending] = /^dist\/(.+?)(\.js|\.d\.ts)$/.exec(path) ?? []
    const source = readFileSync(join(client, name ? `src/${name}.ts` : path), 'utf8')
    // The declarations of these tables need the whole program; their script has the same tables.
    if (path === 'dist/generated/operations.d.ts') continue
    const compilerOptions = {
      ...options,
      module: ts.ModuleKind.ESNext,
      isolatedDeclarations: ending === '.d.ts',
      declaration: ending === '.d.ts',
      removeComments: ending === '.js',
    }
    const compile = ending === '.js' ? ts.transpileModule : ts.transpileDeclaration
    const expected = ending ? compile(source, { compilerOptions }).outputText : source
    t.equal(readFileSync(join(place, path), 'utf8'), expected, `${path}; "npm run prepare" packs it again`)
  }
})

t.test('the server hands out this package', async (t) => {
  const answer = await fetch(`${server.url}/assets/commit-status-client.tgz`)
  t.equal(answer.headers.get('content-type'), 'application/gzip')
  t.ok(readFileSync(tarball).equals(Buffer.from(await answer.arrayBuffer())), 'byte for byte')
})

t.test('unpacked beside its dependencies, it reports, reads, waits and runs', async (t) => {
  const consumer = join(client, 'test/fixtures/consumer.ts')
  writeFileSync(join(project, 'consumer.mts'), readFileSync(consumer))
  const consumers = [join(project, 'consumer.mts')]
  await exercise(t, { project, node: node24, consumers, url: server.url, token, commit: sha })
})

t.test("the README's examples", async (t) => {
  const readme = readFileSync(join(client, 'README.md'), 'utf8')
  const blocks = [...readme.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text = '']) => ({
    language,
    text,
  }))
  t.strictSame(new Set(blocks.map(({ language }) => language)), new Set(['sh', 'ts']))
  const [install, administer = '', ...shell] = blocks
    .filter(({ language }) => language === 'sh')
    .map(({ text }) => text)
  t.match(install, /^npm install --global "\$COMMIT_STATUS_URL\/assets\//, 'run by the proof "packages"')
  const printed = await runLines(administer, { DATA_DIR: server.dataDir })
  const env = {
    PATH: `${node24}:${join(project, 'node_modules/.bin')}:${process.env.PATH}`,
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_TOKEN: printed.trim().split('\n').at(-1) ?? '',
    SHA: sha,
  }
  const waiting = shell.pop() ?? ''
  const outputs: string[] = []
  for (const text of shell) outputs.push(await execute(project, 'sh', ['-ec', text], env))
  t.match(outputs, [
    /^412 tests passed\n$/,
    new RegExp(`^acme/rocket ${sha} ci/lint success\n$`),
    /^combined: success\n[\s\S]*"statuses":\[/,
  ])
  const examples = blocks.filter(({ language }) => language === 'ts').map(({ text }) => text)
  for (const [index, text] of examples.entries()) writeFileSync(join(project, `example-${index}.mts`), text)
  const imports = examples.map((_, index) => `await import('${project}/example-${index}.mts')`)
  const program = ['--input-type=module', '--eval', imports.join('\nconsole.log("--")\n')]
  t.match((await execute(project, 'node', program, env)).split('--\n'), [
    /^success \d\n$/,
    /^a success null\n[\s\S]*ci\/build success null\n/,
    /^422 .*full commit id.* null\n$/,
    /^success \d \[\]\n$/,
  ])
  t.match(await execute(project, 'sh', ['-ec', waiting], env), /^success: \d success\n$/)
})

/** Files of the package that a module and its imports name. */
function reachable(entry: string, read: (path: string) => string): string[] {
  const found = new Set<string>()
  function visit(path: string) {
    if (found.has(path)) return
    found.add(path)
    for (const [, name = ''] of read(path).matchAll(/\b(?:from |import\()['"](\.[^'"]+)['"]/g)) {
      const target = posix.join(posix.dirname(path), name)
      visit(path.endsWith('.d.ts') ? target.replace(/(?:\.d)?\.[jt]s$/, '.d.ts') : target)
    }
  }
  visit(entry)
  return [...found]
}
