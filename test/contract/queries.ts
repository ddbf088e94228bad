import assert from 'node:assert/strict'
import fc from 'fast-check'
import { givenValue, type Query, requiredQuery, queryOf as textOf } from './client.ts'
import { commitsOf, pathParams } from './fixture.ts'
import { type Json, type JsonObject, object, typesOf } from './json.ts'
import { ILL_FORMED, wrongValues } from './mutations.ts'
import { assertNames } from './refusals.ts'
import { type Check, expectStatus, holds } from './run.ts'
import type { Operation, Parameter } from './spec.ts'
import { bound, valid } from './values.ts'

/** Longest query in characters: longer URLs may be answered 431 (info.description). */
const LONGEST = 12_000

/**
 * Valid query parameters are accepted; each broken rule and each unknown parameter is rejected by
 * name. An operation without query parameters ignores the query.
 */
export const queries: Check = {
  name: 'query parameters are validated and rejected by name',
  async run(run) {
    const { open, writer } = run.fixture
    const params = pathParams(open, commitsOf(open)[0] ?? '')
    for (const operation of run.client.contract.operations) {
      const call = (query: Query) =>
        run.client.call(operation, { params, query, token: writer.secret, body: operation.body?.examples[0] })
      const accepted = async (query: Query) => {
        const answer = await call(query)
        assert(
          answer.status < 300,
          `${operation.id}, ${JSON.stringify(query)}: ${answer.status} ${answer.body}`,
        )
      }
      const parameters = queryOf(operation)
      if (parameters.length === 0) {
        await accepted({ unknown: ['1', '2'], ['__proto__']: 'x', 'sha[]': '' })
        continue
      }
      const known = parameters.flatMap(({ name }) => [`${name}[]`, `${name}s`, name.toUpperCase()])
      for (const unknown of ['unknown', '__proto__', ...known]) {
        const answer = await call({ ...requiredQuery(operation), [unknown]: 'x' })
        expectStatus(answer, 422, `${operation.id}: ${unknown}`)
        assertNames(answer.json, unknown)
      }
      await holds(run, validQueries(operation), accepted)
      for (const { name, field, broken } of brokenQueries(operation)) {
        await holds(run, broken, async (query) => {
          const answer = await call(query)
          expectStatus(answer, 422, `${operation.id}: ${name}: ${JSON.stringify(query)}`)
          assertNames(answer.json, field)
        })
      }
    }
  },
}

function queryOf({ parameters }: Operation): Parameter[] {
  return parameters.filter((parameter) => parameter.in === 'query')
}

function validQueries(operation: Operation): fc.Arbitrary<Query> {
  const parameters = queryOf(operation).filter(({ name }) => givenValue(operation, name) !== null)
  const values = parameters.map(({ name, schema }) => {
    const given = givenValue(operation, name)
    return [name, given ? fc.constant(given) : valid(schema).map(asText)] as const
  })
  const requiredKeys = Object.keys(requiredQuery(operation))
  return fc.record(Object.fromEntries(values), { requiredKeys, noNullPrototype: true }).filter(isShort)
}

/** Returns invalid queries for every rule of an operation's query parameters. */
export function brokenQueries(
  operation: Operation,
): { name: string; field: string; broken: fc.Arbitrary<Query> }[] {
  return queryOf(operation).flatMap(({ name, required, schema }) => {
    const rules = typesOf(schema).includes('array')
      ? wrongArrays(schema)
      : [...wrongTexts(schema), repeated(schema)]
    const broken = rules.map(([rule, values]) => ({
      name: `${name}: ${rule}`,
      field: name,
      broken: fc
        .tuple(validQueries(operation), values)
        .map(([query, value]): Query => ({ ...query, [name]: value }))
        .filter(isShort),
    }))
    const missing = validQueries(operation).map((query) =>
      Object.fromEntries(Object.entries(query).filter(([key]) => key !== name)),
    )
    return required ? [...broken, { name: `${name} missing`, field: name, broken: missing }] : broken
  })
}

type Rule = [rule: string, values: fc.Arbitrary<string | string[]>]

/** Returns invalid values of one parameter. A text may be a valid value of several types. */
function wrongTexts(schema: JsonObject): Rule[] {
  const takesText = typesOf(schema).includes('string') && !Array.isArray(schema.enum)
  return wrongValues(schema)
    .filter(([rule]) => !/^type (null|array|object)$/.test(rule) && !(takesText && rule.startsWith('type ')))
    .filter(([rule]) => rule !== ILL_FORMED)
    .map(
      ([rule, values]): Rule => [
        rule,
        values
          .map(String)
          .filter((text) => text.isWellFormed() && !(rule === 'type string' && isWrittenAs(schema, text))),
      ],
    )
}

function wrongArrays(schema: JsonObject): Rule[] {
  const items = object(schema.items, 'items')
  const count = bound(schema.maxItems, 0) + 1
  const tooMany = valid(items)
    .filter((item) => isShort({ item: Array(count).fill(String(item)) }))
    .map((item) => Array<string>(count).fill(String(item)))
  return [
    ...wrongTexts(items).map(
      ([rule, values]): Rule => [`items: ${rule}`, values.map((value) => [String(value)])],
    ),
    ...(schema.maxItems === undefined ? [] : [['too many items', tooMany] satisfies Rule]),
  ]
}

function repeated(schema: JsonObject): Rule {
  return ['sent twice', valid(schema).map((value) => [String(value), String(value)])]
}

function isWrittenAs(schema: JsonObject, text: string): boolean {
  return typesOf(schema).some((type) => type !== 'string' && /^-?\d+$/.test(text) && type !== 'boolean')
}

function isShort(query: Query): boolean {
  return textOf(query).length <= LONGEST
}

function asText(value: Json): string | string[] {
  return Array.isArray(value) ? value.map(String) : String(value)
}
