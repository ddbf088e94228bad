import { execFile } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { minimalEnvironment } from '../../../../test/helpers/process.ts'

const root = resolve(import.meta.dirname, '../../../..')
const client = join(root, 'clients/typescript')
const fixtures = join(client, 'test/fixtures')
const tsc = join(root, 'node_modules/typescript/bin/tsc')

/** Runs a program with a clean environment, and gives what it prints. */
export async function execute(
  folder: string,
  file: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<string> {
  const clean = { ...minimalEnvironment(), HOME: process.env.HOME, ...env }
  const { stdout } = await promisify(execFile)(file, args, { cwd: folder, env: clean, encoding: 'utf8' })
  return stdout
}

/**
 * What npm needs to reach its registry (proxies, certificates), without what it hands to the
 * scripts that it runs.
 */
export function npmEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? '']))
}

/** Builds and packs the package into a folder, and gives the tarball. */
export async function pack(folder: string): Promise<string> {
  const output = await execute(
    client,
    'npm',
    ['pack', '--json', '--silent', '--pack-destination', folder],
    npmEnvironment(),
  )
  const [packed] = JSON.parse(output.slice(output.indexOf('[')))
  return join(folder, packed.filename)
}

/**
 * Unpacks the package into `project` as npm would, with this repository's copies of its
 * dependencies.
 *
 * @returns its folder
 */
export async function unpack(tarball: string, project: string): Promise<string> {
  const place = join(project, 'node_modules/@commit-status/client')
  mkdirSync(place, { recursive: true })
  await execute(project, 'tar', ['-xzf', tarball, '-C', place, '--strip-components=1'])
  chmodSync(join(place, 'dist/cli/main.js'), 0o755)
  mkdirSync(join(project, 'node_modules/.bin'))
  symlinkSync('../@commit-status/client/dist/cli/main.js', join(project, 'node_modules/.bin/commit-status'))
  symlinkSync(join(root, 'node_modules'), join(dirname(project), 'node_modules'))
  return place
}

/** Installs Node 20 below a folder, locked by its hash, and gives the folder that holds `node`. */
export async function installNode20(folder: string): Promise<string> {
  const place = join(folder, 'node-20')
  cpSync(join(fixtures, 'node-20'), place, { recursive: true })
  await execute(place, 'npm', ['ci', '--no-audit', '--no-fund', '--silent'], npmEnvironment())
  return join(place, 'node_modules/.bin')
}

/**
 * Compiles the consumer, and sources by name, against the package that is installed in `project`,
 * and gives the folder of the result.
 */
export async function compileConsumer(
  project: string,
  moduleResolution: 'nodenext' | 'bundler',
  sources: Record<string, string> = {},
): Promise<string> {
  const folder = join(project, moduleResolution)
  mkdirSync(folder)
  cpSync(join(fixtures, 'consumer.ts'), join(folder, 'consumer.ts'))
  for (const [name, text] of Object.entries(sources)) writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  const ofNode = moduleResolution === 'nodenext'
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    target: 'es2022',
    module: ofNode ? 'nodenext' : 'esnext',
    moduleResolution,
    // As Node has it, and as a browser has it without any type of Node.
    lib: ofNode ? ['es2022'] : ['es2022', 'dom'],
    types: ofNode ? ['node'] : [],
    typeRoots: [join(root, 'node_modules/@types')],
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
  await execute(folder, process.execPath, [tsc, '-p', '.'])
  return folder
}

interface Installation {
  /** A folder in which the package is installed. */
  project: string
  /** Folder of the `node` to run. */
  node: string
  /** Modules that use the package. */
  consumers: readonly string[]
  url: string
  token: string
  commit: string
}

/**
 * Reports, reads, waits and runs a command with an installed package: through its consumers and its
 * command line.
 */
export async function exercise(
  t: Test,
  { project, node, consumers, url, token, commit }: Installation,
): Promise<void> {
  const env = { PATH: `${node}:${process.env.PATH}`, COMMIT_STATUS_URL: url, COMMIT_STATUS_TOKEN: token }
  const version = (await execute(project, 'node', ['--version'], env)).trim()
  for (const consumer of consumers) {
    const script = `const { exercise } = await import('${consumer}')
      console.log(await exercise('${url}', process.env.COMMIT_STATUS_TOKEN, '${commit}'))`
    const args = ['--input-type=module', '--eval', script]
    t.equal(await execute(project, 'node', args, env), "[ 'success', 'true', 'success' ]\n")
  }
  const cli = (...args: string[]) => execute(project, 'node_modules/.bin/commit-status', args, env)
  await cli('report', '--sha', commit, '--state', 'success', '--context', 'a')
  t.equal(
    await cli('run', '--sha', commit, '--context', 'b', '--', 'node', '-p', 'process.version'),
    `${version}\n`,
  )
  t.match(await cli('get', commit), /^combined: success\nsuccess {2}a\nsuccess {2}b {9}passed in/)
  t.equal(await cli('wait', commit, '--settle', '0s', '--require', 'a', 'b'), 'success: 3 success\n')
}
