import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

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
  const clean = { PATH: process.env.PATH, HOME: process.env.HOME, ...env }
  const { stdout } = await promisify(execFile)(file, args, { cwd: folder, env: clean, encoding: 'utf8' })
  return stdout
}

/** What npm needs to reach its registry (proxies, certificates), without what it hands to the scripts that it runs. */
export function npmEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? '']))
}

/** What `npm pack` made. */
export interface Packed {
  tarball: string
  size: number
  files: string[]
}

/** Builds and packs the package into a folder. */
export async function pack(folder: string): Promise<Packed> {
  const output = await execute(
    client,
    'npm',
    ['pack', '--json', '--silent', '--pack-destination', folder],
    npmEnvironment(),
  )
  const [packed] = JSON.parse(output.slice(output.indexOf('[')))
  return {
    tarball: join(folder, packed.filename),
    size: packed.size,
    files: packed.files.map(({ path }: { path: string }) => path).sort(),
  }
}

/** Installs Node 20 below a folder, locked by its hash, and gives the folder that holds `node`. */
export async function installNode20(folder: string): Promise<string> {
  const place = join(folder, 'node-20')
  cpSync(join(fixtures, 'node-20'), place, { recursive: true })
  await execute(place, 'npm', ['ci', '--no-audit', '--no-fund', '--silent'], npmEnvironment())
  return join(place, 'node_modules/.bin')
}

/**
 * Compiles the consumer, and sources by name, against the package that is installed in `project`, and gives the folder
 * of the result.
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
