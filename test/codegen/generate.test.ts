import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t, { type Test } from 'tap'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import { findDrift, generate, writeGenerated } from '../../src/codegen/generate.ts'

const root = resolve(import.meta.dirname, '../..')
const parcels = join(import.meta.dirname, 'fixtures/parcels.yaml')
const run = promisify(execFile)

/** Returns the generator's options with temporary folders. */
async function setUp(t: Test, spec = parcels) {
  const folder = await mkdtemp(join(tmpdir(), 'codegen-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return { spec, server: join(folder, 'server'), client: join(folder, 'client') }
}

t.test('emits valid JSON Schemas', async (t) => {
  const ajv = new Ajv2020({ strict: false })
  for (const [name, schema] of Object.entries(schemas)) t.ok(ajv.validateSchema(schema), name)
  for (const [id, { params, query, body, replies }] of Object.entries(operations)) {
    for (const schema of [params, query, body, ...Object.values(replies)])
      t.ok(ajv.validateSchema(schema ?? {}), id)
  }
})

t.test('generates the same bytes from the same contract', async (t) => {
  const options = await setUp(t, join(root, 'openapi.yaml'))
  const first = await generate(options)
  t.same([...(await generate(options))], [...first])
  for (const [path, text] of first) {
    const committed = path.startsWith(options.server)
      ? path.replace(options.server, join(root, 'generated'))
      : path.replace(options.client, join(root, 'clients/typescript/src/generated'))
    t.equal(await readFile(committed, 'utf8'), text, 'the committed files')
    if (path.endsWith('.ts'))
      t.match(text, /^\/\/ Written by `npm run generate` from openapi\.yaml\. Do not edit\.\n/)
  }
})

t.test('writes its files, removes others, and changes nothing the second time', async (t) => {
  const options = await setUp(t)
  await mkdir(join(options.server, 'left-over'), { recursive: true })
  await writeFile(join(options.server, 'stray.ts'), '')
  await writeGenerated(options)
  t.same((await readdir(options.server)).sort(), [
    'handlers.ts',
    'openapi.json',
    'operations.ts',
    'schema.ts',
    'schemas.ts',
  ])
  t.same((await readdir(options.client)).sort(), ['operations.ts', 'schema.ts'])
  t.same(await findDrift(options), [])
})

t.test('finds every difference on disk, and --check names it and fails', async (t) => {
  const options = await setUp(t)
  const { spec, server, client } = options
  await writeGenerated(options)
  const everything = [...(await readdir(server)).map((name) => join(server, name))]
  everything.push(...(await readdir(client)).map((name) => join(client, name)))
  await rm(server, { recursive: true })
  await rm(client, { recursive: true })
  t.same((await findDrift(options)).sort(), everything.sort(), 'no folders')

  await writeGenerated(options)
  const [changed, missing] = [join(client, 'schema.ts'), join(server, 'operations.ts')]
  await writeFile(changed, `${await readFile(changed, 'utf8')}\n`)
  await rm(missing)
  const findObsolete = [join(server, 'stray.ts'), join(client, 'stray.ts')]
  for (const stray of findObsolete) await writeFile(stray, '')
  const drift = [...findObsolete, missing, changed]
  t.same(
    (await findDrift(options)).sort(),
    [...drift].sort(),
    'unknown files, a missing one and a changed one',
  )

  const args = [join(root, 'src/codegen/main.ts'), '--check', '--spec', spec]
  const failed = await run(process.execPath, [...args, '--server', server, '--client', client]).catch(
    (error: unknown) => error,
  )
  t.match(failed, { code: 1, stdout: '', stderr: /\n.*npm run generate/ })
  for (const path of drift)
    t.match(failed, { stderr: `${relative(process.cwd(), path)} does not match openapi.yaml\n` })
})
