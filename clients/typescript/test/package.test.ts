import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, posix, resolve } from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import t from 'tap'
import { git } from '../../../test/helpers/git.ts'
import { startServer } from '../../../test/helpers/server.ts'
import { compileConsumer, execute, exercise, pack, unpack } from './helpers/package.ts'
import { startService } from './helpers/service.ts'

const root = resolve(import.meta.dirname, '../../..')
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'package-')))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const node24 = dirname(process.execPath)
const packed = await pack(folder)
const tarball = readFileSync(packed.tarball)

t.test('the tarball holds what is needed and nothing else', async (t) => {
  t.ok(packed.size < 40_000, `${packed.size} bytes`)
  const declarations = packed.files.filter((path) => path.endsWith('.d.ts'))
  const scripts = packed.files.filter((path) => path.endsWith('.js'))
  const others = packed.files.filter((path) => !declarations.includes(path) && !scripts.includes(path))
  t.strictSame(others, ['LICENSE', 'README.md', 'package.json'])

  const read = (path: string) => readFileSync(join(root, 'clients/typescript', path), 'utf8')
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

t.test('the server hands out this package', async (t) => {
  const { url } = await startServer(t)
  const answer = await fetch(`${url}/assets/commit-status-client.tgz`)
  t.equal(answer.headers.get('content-type'), 'application/gzip')
  const served = Buffer.from(await answer.arrayBuffer())
  t.ok(served.equals(tarball), 'byte for byte; "npm run prepare" packs it again after a change')
})

t.test('publint and attw are clean', async (t) => {
  const bytes = new Uint8Array(tarball).buffer
  const { messages } = await publint({ pack: { tarball: bytes }, strict: true })
  t.strictSame(messages, [])
  const analysis = await checkPackage(createPackageFromTarballData(new Uint8Array(tarball)))
  if (!analysis.types) return t.fail('no types')
  // ESM only: resolution from CommonJS, and by the ways that know no `exports`, is out of scope.
  const problems = analysis.problems.filter(
    (problem) => !('resolutionKind' in problem) || !['node10', 'node16-cjs'].includes(problem.resolutionKind),
  )
  t.strictSame(problems, [])
})

t.test('unpacked beside its dependencies', async (t) => {
  const { server, path, commits, token } = await startService(t, { commits: 2 })
  const readme = readFileSync(resolve(import.meta.dirname, '../README.md'), 'utf8')
  const blocks = [...readme.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text = '']) => ({
    language,
    text,
  }))
  t.strictSame(new Set(blocks.map(({ language }) => language)), new Set(['sh', 'ts']))
  const project = join(folder, 'project')
  git(folder, 'clone', '--quiet', path, project)
  git(project, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  const sha = git(project, 'rev-parse', 'HEAD')
  const [install, ...others] = blocks.filter(({ language }) => language === 'sh').map(({ text }) => text)
  t.match(install, /^npm install @commit-status\/client\b/, 'run by the proof "packages"')
  await unpack(packed.tarball, project)
  const examples = blocks.filter(({ language }) => language === 'ts').map(({ text }) => text)
  const sources = Object.fromEntries(examples.map((text, index) => [`example-${index}.ts`, text]))
  const compiled = await compileConsumer(project, 'nodenext', sources)

  t.test('reports, reads, waits and runs', async (t) => {
    for (const commit of commits)
      await exercise(t, { project, node: node24, consumers: [compiled], url: server.url, token, commit })
  })

  t.test("the README's examples", async (t) => {
    const administer = others.find((text) => text.startsWith('npm run')) ?? ''
    const shell = others.filter((text) => text !== administer)
    const printed = await execute(root, 'sh', ['-ec', administer], {
      DATA_DIR: server.dataDir,
      PATH: `${node24}:${process.env.PATH}`,
    })
    const env = {
      PATH: `${node24}:${process.env.PATH}`,
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
    for (const name of Object.keys(sources)) {
      outputs.push(await execute(compiled, 'node', [name.replace('.ts', '.js')], env))
    }
    t.match(outputs.slice(3), [
      /^success \d\n$/,
      /^a success null\n[\s\S]*ci\/build success null\n/,
      /^422 .*full commit id.* null\n$/,
      /^success \d \[\]\n$/,
    ])
    t.match(await execute(project, 'sh', ['-ec', waiting], env), /^success: \d success\n$/)
  })
})

/** Files of the package that a module and its imports name. */
function reachable(entry: string, read: (path: string) => string): string[] {
  const found = new Set<string>()
  function visit(path: string) {
    if (found.has(path)) return
    found.add(path)
    for (const [, name = ''] of read(path).matchAll(/\bfrom ['"](\.[^'"]+)['"]/g)) {
      const target = posix.join(posix.dirname(path), name)
      visit(path.endsWith('.d.ts') ? target.replace(/(?:\.d)?\.[jt]s$/, '.d.ts') : target)
    }
  }
  visit(entry)
  return [...found]
}
