import { readFileSync } from 'node:fs'
import t from 'tap'
import { HOST, openBrowser } from '../helpers/browser.ts'
import { contractFile, contractJson } from '../helpers/contract.ts'
import { startServer } from '../helpers/server.ts'
import { changeDocument } from './change-document.ts'
import { closed, contractAjv } from './checker.ts'
import { isObject, type Json, list, object, text } from './json.ts'
import { mutationsOf } from './mutations.ts'
import { examplesOf, readContract, readDocument } from './spec.ts'

const contract = await readContract(contractFile)
const unresolved = await readDocument(contractFile)
const changelog = readFileSync('CHANGELOG.md', 'utf8')

t.test('the contract as JSON, which tests read, equals it', (t) => {
  t.strictSame(JSON.parse(readFileSync(contractJson, 'utf8')), unresolved)
  t.end()
})

t.test('every example matches its schema', async (t) => {
  let examples = 0
  const ajv = contractAjv()
  const visit = (value: Json, where: string) => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) visit(item, `${where}/${index}`)
    if (!isObject(value)) return
    const schema = isObject(value.schema) ? value.schema : value
    // Schemas have a list of examples; media types, headers and parameters have a map.
    const found = Array.isArray(value.examples)
      ? value.examples
      : isObject(value.schema)
        ? examplesOf(value)
        : []
    for (const example of found) {
      t.ok(ajv.validate(closed(schema), example), `${where}: ${ajv.errorsText()}`)
      examples += 1
    }
    for (const [key, inner] of Object.entries(value)) visit(inner, `${where}/${key}`)
  }
  visit(contract.document, '')
  t.ok(examples > 30, `${examples} examples`)
})

t.test('what is deprecated says since when, stays for a year, and is not taught by an example', async (t) => {
  const rule =
    /Deprecated since (\d{4})(-\d\d-\d\d); the next major version may remove it, not before (\S+)\. $/
  const deprecated = contract.operations.flatMap(({ id, parameters }) =>
    parameters.flatMap((parameter) => {
      const { name, description, examples } = parameter
      t.equal(/deprecated/i.test(description), parameter.deprecated, `${id}: ${name}`)
      if (!parameter.deprecated) return []
      const [, year, day, end] = rule.exec(description.replace(/\s+/g, ' ')) ?? []
      t.same(examples, [], `${id}: ${name}`)
      t.equal(end, `${Number(year) + 1}${day}`, `${id}: ${name}`)
      t.match(
        changelog,
        `\`${name}\` of \`${id}\` is deprecated since ${year}${day}. It stays for at least a year.`,
      )
      return [`${id} ${name}`]
    }),
  )
  t.same(deprecated, ['getVerdict wait'])
  t.match(
    readFileSync('.github/CONTRIBUTING.md', 'utf8').replace(/\s+/g, ' '),
    'It stays for at least a year from that date, and only a new major version of openapi.yaml removes it.',
  )
  t.match(
    (await (await startServer(t)).call('GET', '/docs/reference')).body.replace(/\s+/g, ' '),
    'Within a major version requests that work keep working, and responses may gain fields. What is deprecated stays for a year at least.',
  )
})

t.test('examples are ordered as the contract says', async (t) => {
  const lists: string[][] = []
  const visit = (value: Json) => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    if (!isObject(value)) return
    if (value.statuses !== undefined)
      lists.push(list(value.statuses).map((status) => text(object(status, 'a status').context, 'context')))
    if (value.contexts !== undefined)
      lists.push(list(value.contexts).map((context) => text(context, 'context')))
    for (const inner of Object.values(value)) visit(inner)
  }
  for (const { replies } of contract.operations)
    for (const { content } of replies.values()) visit(content?.examples ?? [])
  t.ok(lists.some(({ length }) => length > 1))
  // UTF-8 has the order of code points.
  for (const contexts of lists)
    t.same(
      contexts,
      contexts.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    )
})

t.test('published answer schemas allow additional properties', async (t) => {
  const visit = (value: Json, where: string) => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) visit(item, `${where}/${index}`)
    if (!isObject(value)) return
    // Not even as true, which is the default: some generators write other code for it, and lose the
    // declared fields.
    if (value.type === 'object') t.notOk('additionalProperties' in value, where)
    for (const [key, inner] of Object.entries(value)) visit(inner, `${where}/${key}`)
  }
  for (const { id, replies } of contract.operations)
    for (const [status, { content }] of replies) visit(content?.schema ?? null, `${id} ${status}`)
})

t.test('new fields and limits are tested without further edits', async (t) => {
  const document = structuredClone(unresolved)
  const labels = { type: 'array', maxItems: 3, items: { type: 'string', maxLength: 5 } }
  changeDocument(document, 'StatusReport properties attempt', { type: 'integer', minimum: 1, maximum: 99 })
  changeDocument(document, 'StatusReport properties labels', labels)
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

t.test('the docs show every operation and every error', async (t) => {
  const server = await startServer(t)
  const browser = await openBrowser(t)
  const page = await (await browser.openContext()).newPage()
  await page.goto(`${server.url.replace('127.0.0.1', HOST)}/docs`)
  for (const { id, path, replies } of contract.operations) {
    const block = page.locator('.opblock', { has: page.locator(`[data-path="${path}"]`) })
    await block.locator('.opblock-summary-control').click()
    // The first cell is the header of the table.
    const [, ...statuses] = await block
      .locator('.responses-table > * > tr > .response-col_status')
      .allInnerTexts()
    const shown = statuses.map((status) => Number.parseInt(status, 10))
    t.strictSame(shown, [...replies.keys()], id)
  }
  t.notMatch(
    await page.locator('#docs').innerText(),
    /\bx-[a-z]+-?[a-z]/,
    'keys of the generator are not shown',
  )
  const introduction = await page.locator('.information-container').textContent()
  for (const status of [400, 404, 405, 408, 417, 431, 500])
    t.ok(introduction?.includes(`${status}`), `${status}`)

  await page.getByRole('link', { name: 'Samples in curl' }).click()
  const indentation = "getComputedStyle(document.querySelector('pre code')).paddingLeft"
  t.equal(await page.evaluate(indentation), '0px', 'the first line of a sample begins where the others do')
})
