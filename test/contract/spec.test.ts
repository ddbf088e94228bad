import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { HOST, openBrowser } from '../helpers/browser.ts'
import { contractFile } from '../helpers/contract.ts'
import { startServer } from '../helpers/server.ts'
import { allowsBreaking, breakingChanges } from './breaking.ts'
import { closed, contractAjv } from './checker.ts'
import { entries, isObject, type Json, type JsonObject, list, object } from './json.ts'
import { mutationsOf } from './mutations.ts'
import { examplesOf, readContract, readDocument } from './spec.ts'

const contract = await readContract(contractFile)
const unresolved = await readDocument(contractFile)
const released = resolve(import.meta.dirname, 'released')

t.test('the linter has nothing to say, not even a warning', async (t) => {
  const redocly = resolve(import.meta.dirname, '../../node_modules/.bin/redocly')
  const args = ['lint', '--extends', 'recommended', '--format', 'json', contractFile]
  const { stdout } = await promisify(execFile)(redocly, args, {
    env: { ...process.env, REDOCLY_TELEMETRY: 'off' },
  })
  const report: { totals: { errors: number; warnings: number; ignored: number } } = JSON.parse(stdout)
  t.strictSame(report.totals, { errors: 0, warnings: 0, ignored: 0 })
})

t.test('every example keeps to its schema', async (t) => {
  let examples = 0
  const visit = (value: Json, where: string) => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) visit(item, `${where}/${index}`)
    if (!isObject(value)) return
    const schema = isObject(value.schema) ? value.schema : value
    // Schemas list their examples; media types, headers and parameters name theirs.
    const found = Array.isArray(value.examples)
      ? value.examples
      : isObject(value.schema)
        ? examplesOf(value)
        : []
    for (const example of found) {
      const ajv = contractAjv()
      t.ok(ajv.validate(closed(schema), example), `${where}: ${ajv.errorsText()}`)
      examples += 1
    }
    for (const [key, inner] of Object.entries(value)) visit(inner, `${where}/${key}`)
  }
  visit(contract.document, '')
  t.ok(examples > 30, `${examples} examples`)
  for (const { id, body, replies } of contract.operations) {
    if (body) t.ok(body.examples.length > 0, `${id}: an example of its body`)
    for (const [status, { content }] of replies) {
      if (content) t.ok(content.examples.length > 0, `${id} ${status}: an example`)
    }
  }
})

t.test('clients of a released version do not break', async (t) => {
  const files = readdirSync(released).filter((name) => name.endsWith('.yaml'))
  t.ok(files.length > 0)
  for (const file of files) {
    const before = await readContract(resolve(released, file))
    t.equal(file, `openapi-${before.version}.yaml`)
    const changes = breakingChanges(before, contract)
    if (!allowsBreaking(before, contract)) t.strictSame(changes, [], `since ${before.version}`)
  }
})

t.test('what breaks a client is noticed', async (t) => {
  const cases: [name: string, found: RegExp, change: (document: JsonObject) => void][] = [
    ['an operation is removed', /listStatuses is gone/, (d) => delete at(d, 'paths')[pathOf('listStatuses')]],
    [
      'an answer is removed',
      /403 is gone/,
      (d) => delete at(operation(d, 'reportStatus'), 'responses')['403'],
    ],
    [
      'an answer is new',
      /418 is new/,
      (d) => set(at(operation(d, 'reportStatus'), 'responses'), '418', { description: 'x' }),
    ],
    [
      'a field is now required',
      /context is required now/,
      (d) => set(schema(d, 'StatusReport'), 'required', ['state', 'context']),
    ],
    [
      'a new field is required',
      /team is required now/,
      (d) => {
        set(field(d, 'StatusReport'), 'team', { type: 'string' })
        set(schema(d, 'StatusReport'), 'required', ['state', 'team'])
      },
    ],
    ['a field of an answer is gone', /target_url is gone/, (d) => delete field(d, 'Status').target_url],
    [
      'a field of an answer may be missing',
      /id may be missing/,
      (d) => set(schema(d, 'Status'), 'required', ['sha']),
    ],
    [
      'a limit is lower',
      /narrower maxLength: 200/,
      (d) => set(at(field(d, 'StatusReport'), 'context'), 'maxLength', 200),
    ],
    [
      'a limit of an answer is higher',
      /wider maxLength: 255/,
      (d) => set(at(field(d, 'Status'), 'context'), 'maxLength', 500),
    ],
    [
      'a body may hold less',
      /at most 100 bytes/,
      (d) => set(at(operation(d, 'reportStatus'), 'requestBody'), 'x-body-limit', 100),
    ],
    [
      'a value is no longer taken',
      /narrower enum: error/,
      (d) => set(schema(d, 'State'), 'enum', ['pending', 'success', 'failure']),
    ],
    [
      'a value is answered that was not',
      /wider enum: skipped/,
      (d) => list(schema(d, 'CombinedState').enum).push('skipped'),
    ],
    [
      'null is answered where it was not',
      /wider type: null/,
      (d) => set(at(field(d, 'Status'), 'context'), 'type', ['string', 'null']),
    ],
    [
      'a default is another',
      /another default/,
      (d) => set(at(field(d, 'StatusReport'), 'context'), 'default', 'ci'),
    ],
    [
      'a header is gone',
      /header vary is gone/,
      (d) => delete at(at(at(operation(d, 'listStatuses'), 'responses'), '200'), 'headers').Vary,
    ],
    [
      'a credential is needed',
      /needs a credential/,
      (d) => set(operation(d, 'listStatuses'), 'security', [{ bearerToken: [] }]),
    ],
  ]
  for (const [name, expected, change] of cases) {
    const document = structuredClone(unresolved)
    change(document)
    const changes = breakingChanges(contract, await readContract(document))
    t.match(changes.join('\n'), expected, name)
  }
})

t.test('what breaks no client is let pass', async (t) => {
  const document = structuredClone(unresolved)
  set(field(document, 'StatusReport'), 'environment', { type: 'string', maxLength: 50 })
  set(field(document, 'Status'), 'environment', { type: ['string', 'null'] })
  set(at(field(document, 'StatusReport'), 'description'), 'maxLength', 4096)
  t.strictSame(breakingChanges(contract, await readContract(document)), [])
})

t.test('another major version may break clients', async (t) => {
  const document = structuredClone(unresolved)
  set(at(document, 'info'), 'version', `${Number.parseInt(contract.version, 10) + 1}.0.0`)
  t.ok(allowsBreaking(contract, await readContract(document)))
  t.notOk(allowsBreaking(contract, contract))
})

t.test('a new field and a new limit get tests of their own', async (t) => {
  const document = structuredClone(unresolved)
  set(field(document, 'StatusReport'), 'attempt', { type: 'integer', minimum: 1, maximum: 99 })
  set(field(document, 'StatusReport'), 'labels', {
    type: 'array',
    maxItems: 3,
    items: { type: 'string', maxLength: 5 },
  })
  const changed = await readContract(document)
  const names = mutationsOf(changed.operations[0]?.body?.schema ?? {}).map(({ name }) => name)
  for (const name of [
    'attempt: too small',
    'attempt: too large',
    'attempt: type string',
    'labels: too many items',
  ]) {
    t.ok(names.includes(name), name)
  }
})

t.test('the docs are rendered from this contract, with every operation and every error', async (t) => {
  const server = await startServer(t)
  const served = await fetch(`${server.url}/openapi.yaml`)
  t.equal(await served.text(), readFileSync(contractFile, 'utf8'))

  const browser = await openBrowser(t)
  const page = await (await browser.visitor()).newPage()
  await page.goto(`${server.url.replace('127.0.0.1', HOST)}/docs`)
  for (const { id, path, replies } of contract.operations) {
    const block = page.locator('.opblock', { has: page.locator(`[data-path="${path}"]`) })
    await block.locator('.opblock-summary-control').click()
    // The head of the table is in the same column.
    const [, ...statuses] = await block
      .locator('.responses-table > * > tr > .response-col_status')
      .allInnerTexts()
    const shown = statuses.map((status) => Number.parseInt(status, 10))
    t.strictSame(shown, [...replies.keys()], id)
  }
  const text = await page.locator('.information-container').innerText()
  for (const status of [400, 404, 405, 408, 414, 417, 431, 500]) t.ok(text.includes(`${status}`), `${status}`)
})

function at(holder: JsonObject, key: string): JsonObject {
  return object(holder[key], key)
}

function set(holder: JsonObject, key: string, value: Json): void {
  holder[key] = value
}

function schema(document: JsonObject, name: string): JsonObject {
  return at(at(at(document, 'components'), 'schemas'), name)
}

function field(document: JsonObject, name: string): JsonObject {
  return at(schema(document, name), 'properties')
}

function pathOf(id: string): string {
  return contract.operations.find((candidate) => candidate.id === id)?.path ?? ''
}

function operation(document: JsonObject, id: string): JsonObject {
  const [, found] = entries(at(document, 'paths')[pathOf(id)])[0] ?? []
  return object(found, id)
}
