import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { changeDocument } from '../contract/change-document.ts'
import { createFixture, type Repository } from '../contract/fixture.ts'
import { isObject, type Json } from '../contract/json.ts'
import { startOwnServer } from '../contract/own-server.ts'
import { readDocument } from '../contract/spec.ts'
import { storeAdministration } from '../contract/store-administration.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { startGrowingServer } from './foreign-clients/growing-server.ts'
import { recordEvidence } from './parts/evidence.ts'

/**
 * Generates clients from openapi.yaml with generators of other languages, and lets each report and
 * read, directly and from a server that adds a field to every answer. Takes Python 3.10 or later,
 * Go, Java and Maven from the machine, installs everything else into a folder that it removes, and
 * says what it left out for want of one of these.
 */
const VERSIONS = {
  openapiGenerator: '7.25.0',
  openapiPythonClient: '0.29.1',
  schemathesis: '4.32.5',
  oapiCodegen: 'v2.8.2',
  ogen: 'v1.14.0',
  spectral: '6.16.3',
  zod: '3.25.76',
  zodClient: '1.18.3',
  zodios: '10.9.6',
  axios: '1.21.1',
}
/** Milliseconds that one command may take: most of them install something. */
const TIMEOUT = 600_000
/** Seconds for which Schemathesis makes up requests, and how many at least. */
const FULL_FUZZING = 1_200
const FUZZING = Number(process.env.SOAK_SECONDS ?? FULL_FUZZING)
const CASES = (20_000 * FUZZING) / FULL_FUZZING
/** Commits on which Schemathesis reports: on few, it would exceed the contexts of a commit. */
const FUZZED_COMMITS = 20

const spec = resolve(import.meta.dirname, '../../openapi.yaml')
const programs = join(import.meta.dirname, 'foreign-clients')
const folder = mkdtempSync(join(tmpdir(), 'foreign-'))
const print = (line: string) => process.stdout.write(`${line}\n`)

interface CommandOptions {
  cwd?: string
  timeout?: number
  env?: Record<string, string>
  input?: string
}

/** Runs a command. @throws Error with the end of what it printed when it fails or takes too long */
async function run(command: string, args: string[], options: CommandOptions = {}): Promise<string> {
  return new Promise((done, reject) => {
    const { PATH = '', HOME = folder, ...rest } = process.env
    const env = { ...rest, HOME, PATH: `${join(folder, 'venv/bin')}${delimiter}${PATH}`, ...options.env }
    const { cwd = folder, timeout = TIMEOUT } = options
    const settings = { cwd, env, timeout, maxBuffer: 64 * 1024 ** 2 }
    const child = execFile(command, args, settings, (error, stdout, stderr) => {
      if (!error) return done(stdout)
      const line = [command, ...args].join(' ').slice(0, 200)
      // Schemathesis shows whole requests in one line.
      const printed = `${stdout}${stderr}`.replace(/^(.{500}).*$/gm, '$1…')
      reject(new Error(`${line}\n${printed.slice(-3_000)}`, { cause: error }))
    })
    child.stdin?.end(options.input ?? '')
  })
}

/** Whether a program is there. */
async function has(command: string, ...args: string[]): Promise<boolean> {
  return run(command, args).then(
    () => true,
    () => false,
  )
}

function npmInstall(folder: string, ...packages: string[]): Promise<string> {
  return run('npm', [
    'install',
    '--prefix',
    folder,
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    ...packages,
  ])
}

/** Where Go keeps what it downloads and builds. */
const go = {
  GOPATH: join(folder, 'gopath'),
  GOCACHE: join(folder, 'gocache'),
  GOFLAGS: '-modcacherw -buildvcs=false -mod=mod',
}

/**
 * A client of its own module, made of what `generate` writes to `api/` and a program that uses it.
 */
async function goClient(name: string, generate: (module: string) => Promise<unknown>): Promise<Client> {
  const module = join(folder, `go-${name}`)
  mkdirSync(join(module, 'api'), { recursive: true })
  writeFileSync(join(module, 'go.mod'), 'module foreign\n\ngo 1.24\n')
  await generate(module)
  cpSync(join(programs, `${name}.go`), join(module, 'main.go'))
  await run('go', ['mod', 'tidy'], { cwd: module, env: go })
  await run('go', ['build', '-o', 'client', '.'], { cwd: module, env: go })
  return (env) => run(join(module, 'client'), [], { env })
}

async function pythonClient(name: string, packages: string): Promise<Client> {
  return (env) => run('python', [join(programs, `${name}.py`)], { env: { ...env, PYTHONPATH: packages } })
}

/** Reports and reads against BASE_URL. */
type Client = (env: Record<string, string>) => Promise<unknown>

interface Generator {
  needs: ('python' | 'go' | 'java' | 'maven')[]
  create(): Promise<Client>
}

const openapiGenerator = (language: string, out: string, ...options: string[]) =>
  run('openapi-generator-cli', ['generate', '-i', spec, '-g', language, '-o', out, ...options])

/**
 * Without this option, openapi-generator takes a schema that does not mention
 * `additionalProperties` for a closed one.
 */
const OPEN = ['--additional-properties', 'disallowAdditionalPropertiesIfNotPresent=false']

/** A client by the generator for Java and one of its HTTP libraries, used by the class `main`. */
function javaClient(main: string, library: string, ...options: string[]): Generator {
  return {
    needs: ['python', 'java', 'maven'],
    async create() {
      const out = join(folder, `java-${library}`)
      await openapiGenerator('java', out, '--library', library, ...options)
      for (const name of ['DecodedValues.java', `${main}.java`])
        cpSync(join(programs, name), join(out, 'src/main/java', name))
      const copy = 'org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies'
      const args = ['--quiet', '--batch-mode', `-Dmaven.repo.local=${join(folder, 'm2')}`]
      await run('mvn', [...args, 'compile', copy, '-DincludeScope=runtime'], { cwd: out })
      const classes = ['classes', 'dependency/*'].map((path) => join(out, 'target', path)).join(delimiter)
      return (env) => run('java', ['-cp', classes, main], { env })
    },
  }
}

const generators: Record<string, Generator> = {
  'openapi-generator, Python': {
    needs: ['python', 'java'],
    async create() {
      const out = join(folder, 'openapi-generator-python')
      await openapiGenerator('python', out)
      await run('pip', ['install', '--quiet', '-r', join(out, 'requirements.txt')])
      return pythonClient('openapi_generator', out)
    },
  },
  'openapi-generator, Go': {
    needs: ['python', 'java', 'go'],
    create: () =>
      goClient('openapi_generator', async (module) => {
        const out = join(folder, 'openapi-generator-go')
        await openapiGenerator('go', out, '--package-name', 'api', ...OPEN)
        cpSync(out, join(module, 'api'), {
          recursive: true,
          filter: (path) => !/\/(go\.(mod|sum)|test)$/.test(path),
        })
      }),
  },
  'openapi-generator, Java': javaClient('OkhttpGson', 'okhttp-gson', ...OPEN),
  // If the contract mentioned `additionalProperties`, its classes would extend HashMap, and Gson
  // would fill none of their fields.
  'openapi-generator, Java with Retrofit': javaClient('Retrofit2', 'retrofit2'),
  'openapi-python-client': {
    needs: ['python'],
    async create() {
      const out = join(folder, 'openapi-python-client')
      mkdirSync(out)
      const args = ['generate', '--path', spec, '--output-path', join(out, 'api_client'), '--meta', 'none']
      await run('openapi-python-client', args)
      return pythonClient('openapi_python_client', out)
    },
  },
  'oapi-codegen': {
    needs: ['go'],
    create: () =>
      goClient('oapi_codegen', (module) => {
        const tool = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${VERSIONS.oapiCodegen}`
        const args = ['-generate', 'types,client', '-package', 'api', '-o', join(module, 'api/api.go'), spec]
        return run('go', ['run', tool, ...args], { env: go })
      }),
  },
  'openapi-zod-client': {
    needs: [],
    async create() {
      const [out, client] = [join(folder, 'zod'), join(folder, 'zod/client.ts')]
      mkdirSync(out)
      const packages = [`openapi-zod-client@${VERSIONS.zodClient}`, `zod@${VERSIONS.zod}`]
      await npmInstall(out, ...packages, `@zodios/core@${VERSIONS.zodios}`, `axios@${VERSIONS.axios}`)
      await run(join(out, 'node_modules/.bin/openapi-zod-client'), [spec, '-o', client, '--export-schemas'])
      cpSync(join(programs, 'zod.mjs'), join(out, 'main.mjs'))
      return (env) => run(process.execPath, [join(out, 'main.mjs')], { env: { ...env, CLIENT: client } })
    },
  },
  ogen: {
    needs: ['go'],
    create: () =>
      goClient('ogen', async (module) => {
        const tool = 'github.com/ogen-go/ogen/cmd/ogen'
        await run('go', ['get', '-tool', `${tool}@${VERSIONS.ogen}`], { cwd: module, env: go })
        const args = ['--target', join(module, 'api'), '--package', 'api', '--clean', spec]
        await run('go', ['tool', tool, ...args], { cwd: module, env: go })
      }),
  },
}

/**
 * Lets Schemathesis make up requests, valid and not, follow links, and check every answer against
 * the contract.
 */
async function fuzz(url: string, { owner, name, commits }: Repository, token: string): Promise<string> {
  const contract = await readDocument(spec)
  // Of others it would only see that they are missing, and links begin at a stored report.
  const known = { Owner: [owner, owner.toUpperCase()], Repo: [name], Sha: commits.slice(-FUZZED_COMMITS) }
  changeDocument(contract, 'getLastPassed parameters 2 schema', { enum: ['main', 'refs/heads/main'] })
  // It takes every number for one that violates a format that it does not know.
  changeDocument(contract, 'StatusReport properties elapsed format')
  for (const [parameter, values] of Object.entries(known)) {
    changeDocument(contract, `components parameters ${parameter} schema`, { enum: [...values] })
    changeDocument(contract, `components parameters ${parameter} example`)
  }
  const file = join(folder, 'openapi.json')
  writeFileSync(file, JSON.stringify(contract))
  // By default a body that is invalid as well as too large must not be answered with 413.
  const refusals = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, '5xx']
  writeFileSync(
    join(folder, 'schemathesis.toml'),
    `[checks.negative_data_rejection]\nexpected-statuses = ${JSON.stringify(refusals)}\n`,
  )
  const output = await run(
    'schemathesis',
    [
      ...['run', file, '--url', url, '--header', `Authorization: Bearer ${token}`],
      ...['--max-time', String(FUZZING), '--seed', '1'],
    ],
    { timeout: 2_000 * FUZZING, env: { SCHEMATHESIS_HOOKS: 'schemathesis_hooks', PYTHONPATH: programs } },
  )
  const [links = ''] = /API Links: .*/.exec(output) ?? [output.slice(-1_500)]
  const [cases = ''] = /[\d,]+ generated.*/.exec(output) ?? []
  assert.match(links, /\b(\d+) covered \/ \1 selected/)
  assert(Number.parseInt(cases.replaceAll(',', ''), 10) >= CASES, cases)
  const covered = /\d+ covered/.exec(links)?.[0]
  if (FUZZING >= FULL_FUZZING)
    recordEvidence(
      'foreign-clients',
      'Schemathesis made up requests to every operation, valid and not, in all its phases',
      `${cases.replace(/ generated.*/, '')} requests, ${covered} links: every answer is one of the contract`,
    )
  return `${links.replace(/ +/g, ' ')}\nTest cases: ${cases}`
}

/** Every pattern of the contract. */
function patternsOf(value: Json): string[] {
  if (Array.isArray(value)) return value.flatMap(patternsOf)
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'pattern' && typeof inner === 'string' ? [inner] : patternsOf(inner),
  )
}

const tools = {
  python: await has('python3', '-c', 'import sys, venv; sys.exit(sys.version_info < (3, 10))'),
  go: await has('go', 'version'),
  java: await has('java', '-version'),
  maven: await has('mvn', '--version'),
}
for (const [name, found] of Object.entries(tools)) if (!found) print(`missing: ${name}`)

const [, , , ...names] = process.argv
const wanted = (name: string) => names.length === 0 || names.some((part) => name.includes(part))
const failed: string[] = []
let passed = 0
async function attempt(
  name: string,
  needs: (keyof typeof tools)[],
  work: () => Promise<unknown>,
): Promise<void> {
  const missing = needs.filter((tool) => !tools[tool])
  if (!wanted(name)) return
  if (missing.length > 0) {
    print(`left out  ${name}: needs ${missing.join(' and ')}`)
    return
  }
  const started = performance.now()
  try {
    const told = await work()
    passed += 1
    if (typeof told === 'string' && told !== '') print(told)
    print(`ok        ${name} (${Math.round((performance.now() - started) / 1000)} s)`)
  } catch (error) {
    failed.push(name)
    print(`FAILED    ${name}\n${error instanceof Error ? error.message : error}`)
  }
}

const server = await startOwnServer(1_000_000)
const growing = await startGrowingServer(server.url)
try {
  const { open, writer } = await createFixture(
    storeAdministration(server.store),
    2 * Object.keys(generators).length + FUZZED_COMMITS,
  )
  const commits = [...open.commits]
  if (tools.python) {
    await run('python3', ['-m', 'venv', join(folder, 'venv')])
    const { openapiGenerator, openapiPythonClient, schemathesis } = VERSIONS
    await run('pip', [
      ...['install', '--quiet', `openapi-generator-cli==${openapiGenerator}`],
      ...[`openapi-python-client==${openapiPythonClient}`, `schemathesis==${schemathesis}`],
    ])
  }

  const patterns = patternsOf(await readDocument(spec))
  assert(patterns.length > 5)
  const input = JSON.stringify(patterns)
  await attempt('patterns in Python', ['python'], () =>
    run('python', [join(programs, 'patterns.py')], { input }),
  )
  await attempt('patterns in Go (RE2)', ['go'], () =>
    run('go', ['run', join(programs, 'patterns.go')], { input, env: { ...go, GOFLAGS: '-buildvcs=false' } }),
  )
  await attempt('patterns in Java', ['java'], () =>
    run('java', [join(programs, 'Patterns.java'), ...patterns]),
  )

  await attempt('Spectral', [], async () => {
    const [out, rules] = [join(folder, 'spectral'), join(folder, 'spectral/rules.yaml')]
    mkdirSync(out)
    await npmInstall(out, `@stoplight/spectral-cli@${VERSIONS.spectral}`)
    writeFileSync(rules, JSON.stringify({ extends: ['spectral:oas'] }))
    const args = ['lint', spec, '-r', rules, '--fail-severity', 'hint']
    await run(join(out, 'node_modules/.bin/spectral'), args)
  })
  await attempt('Schemathesis', ['python'], async () => {
    // Without it, nothing has passed.
    const { rules } = asAdministrator(server.store)
    const repository = await server.store.repositories.get(open.owner, open.name)
    await rules.set(repository, { refPattern: 'main', required: ['ci/build'], bypass: [] })
    return fuzz(server.url, open, writer.secret)
  })
  await attempt('axios, which sends require[]', [], async () => {
    const out = join(folder, 'axios')
    mkdirSync(out)
    await npmInstall(out, `axios@${VERSIONS.axios}`)
    cpSync(join(programs, 'axios.mjs'), join(out, 'main.mjs'))
    const URL = `${server.url}/api/v1/repos/${open.owner}/${open.name}/commits/${open.commits[0]}/verdict`
    await run(process.execPath, [join(out, 'main.mjs')], { env: { URL } })
  })

  for (const [name, { needs, create }] of Object.entries(generators)) {
    await attempt(name, needs, async () => {
      const client = await create()
      for (const [how, url] of Object.entries({ directly: server.url, 'with a new field': growing.url })) {
        const SHA = commits.shift() ?? ''
        const CONTEXT = `${name}, ${how}`
        await client({
          BASE_URL: url,
          TOKEN: writer.secret,
          OWNER: open.owner,
          REPO: open.name,
          SHA,
          CONTEXT,
        })
        const repository = await server.store.repositories.get(open.owner, open.name)
        const [status, ...others] = await server.store.statuses.list(repository.id, SHA)
        assert.deepEqual([status?.context, status?.state, others], [CONTEXT, 'success', []], how)
      }
    })
  }
} finally {
  growing.server.close()
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
}
if (names.length === 0 && failed.length === 0 && !Object.values(tools).includes(false))
  recordEvidence(
    'foreign-clients',
    'clients of other generators and languages reported and read, also from a server that adds a field to every answer',
    `all as expected: ${Object.keys(generators).join('; ')}`,
  )
print(`${passed} passed, ${failed.length} failed`)
process.exitCode = failed.length === 0 && passed > 0 ? 0 : 1
