import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
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

t.test('finds every difference on disk', async (t) => {
  const options = await setUp(t)
  const everything = [...(await generate(options)).keys()]
  t.same(await findDrift(options), everything, 'empty folders')
  await writeGenerated(options)

  for (const path of [join(options.server, 'operations.ts'), join(options.client, 'schema.ts')]) {
    const text = await readFile(path, 'utf8')
    await writeFile(path, `${text}\n`)
    t.same(await findDrift(options), [path], 'a changed file')
    await rm(path)
    t.same(await findDrift(options), [path], 'a missing file')
    await writeFile(path, text)
  }
  for (const folder of [options.server, options.client]) {
    const stray = join(folder, 'stray.ts')
    await writeFile(stray, '')
    t.same(await findDrift(options), [stray], 'an unknown file')
    await rm(stray)
  }
  t.same(await findDrift(options), [])
})

t.test('--check fails and names each file that differs', async (t) => {
  const { spec, server, client } = await setUp(t)
  await writeGenerated({ spec, server, client })
  const main = join(root, 'src/codegen/main.ts')
  const args = [main, '--check', '--spec', spec, '--server', server, '--client', client]
  await run(process.execPath, args)
  await writeFile(join(client, 'schema.ts'), 'export {}\n')
  const failed = {
    code: 1,
    stdout: '',
    stderr: /client\/schema\.ts does not match openapi\.yaml\n.*npm run generate/,
  }
  await t.rejects(run(process.execPath, args), failed)
})
