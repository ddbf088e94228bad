import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { generate } from '../../src/codegen/generate.ts'
import { handlerHeaders } from '../../src/codegen/headers.ts'

const parcels = readFileSync(join(import.meta.dirname, 'fixtures/parcels.yaml'), 'utf8')

async function generateFrom(t: Test, text: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'codegen-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const spec = join(folder, 'spec.yaml')
  await writeFile(spec, text)
  await generate({ spec, server: join(folder, 'server'), client: join(folder, 'client') })
}

const RECALL = `    delete:
      operationId: recallParcel
      summary: Recall a parcel
      x-access: write
      x-scopes: [parcels]
      parameters:
        - $ref: '#/components/parameters/Owner'
        - $ref: '#/components/parameters/Repo'
`
const ORDER = "$ref: '#/components/schemas/Order'"

/** Edits of the small contract, and what the error must name. */
const rejected: [what: string, find: string, replacement: string, names: RegExp][] = [
  ['a schema keyword', 'minLength: 1', 'minLength: 1\n          anyOf: []', /"anyOf"/],
  [
    'not with more than a pattern',
    "pattern: '^unknown$'",
    'const: unknown',
    /"not" supports only the keyword pattern/,
  ],
  [
    'oneOf without null',
    '- type: integer\n            - type',
    '- type: integer\n            - type: string\n            - type',
    /"oneOf" is/,
  ],
  [
    'oneOf with null in front',
    "- type: integer\n            - type: 'null'",
    "- type: 'null'\n            - type: integer",
    /"oneOf" is/,
  ],
  [
    'a keyword beside oneOf',
    'weight:\n          oneOf',
    'weight:\n          maximum: 7\n          oneOf',
    /"oneOf" is/,
  ],
  [
    'null in a list of types',
    'type: integer\n        to',
    "type: [integer, 'null']\n        to",
    /oneOf: \[SCHEMA/,
  ],
  ['null in an enum', 'enum: [letter, box]', 'enum: [letter, box, null]', /oneOf: \[SCHEMA/],
  [
    'a keyword beside a reference',
    'weight:\n          description: Grams.',
    "size:\n          $ref: '#/components/schemas/Kind'\n          default: box\n        weight:\n          description: Grams.",
    /Order\.size: many languages ignore "default" beside \$ref/,
  ],
  [
    'a keyword below items',
    "$ref: '#/components/schemas/Parcel'\n        '304'",
    "type: string\n                  contentEncoding: base64\n        '304'",
    /"contentEncoding"/,
  ],
  ['a format', 'minLength: 1', 'format: email', /format "email"/],
  [
    'a pattern that is not portable',
    "pattern: '!$'",
    "pattern: '(?<!x)!$'",
    /Parcel\.note: pattern .* not portable/,
  ],
  ['a reference to elsewhere', ORDER, "$ref: '#/components/parameters/Owner/schema'", /reference|ref/i],
  [
    'additionalProperties',
    'properties:\n        error:',
    'additionalProperties: true\n      properties:\n        error:',
    /"additionalProperties"/,
  ],
  [
    'an object of a request and an answer',
    ORDER,
    "$ref: '#/components/schemas/Parcel'",
    /Parcel is used by a request and by an answer/,
  ],
  [
    'a dependency on a field that does not exist',
    'properties:\n        error:',
    'dependentRequired:\n        error: [reason]\n      properties:\n        error:',
    /dependentRequired names reason, which is no property/,
  ],
  [
    'a default of a field that requires others',
    'x-max-bytes: 8',
    'x-max-bytes: 8\n        size:\n          type: integer\n          default: 1\n      dependentRequired:\n        size: [note]',
    /Order: size requires other fields, so it cannot have a default/,
  ],
  ['an x- key on a schema', 'x-max-bytes: 8', 'x-max-byte: 8', /"x-max-byte"/],
  ['an x- key on an operation', 'x-access: read', 'x-acess: read', /"x-acess"/],
  ['an x- key on a body', 'x-body-limit: 200', 'x-body-limit: 200\n        x-note: y', /"x-note"/],
  ['an x- key on a parameter', 'name: owner', 'name: owner\n      x-note: y', /"x-note"/],
  [
    'an x- key on a response',
    'description: Recalled.',
    'description: Recalled.\n          x-note: y',
    /"x-note"/,
  ],
  ['an x- key on a path', '/{repo}/parcels:\n', '/{repo}/parcels:\n    x-note: y\n', /"x-note"/],
  ['an x- key on the document', 'servers:', 'x-note: y\nservers:', /"x-note"/],
  [
    'a scope of a security scheme',
    'accessKey: []',
    'accessKey: [parcels]',
    /scopes of tokens are named by x-scopes/,
  ],
  ['another access', 'x-access: read', 'x-access: admin', /x-access must be "read" or "write"/],
  [
    'x-replaces-by with an unknown field',
    'x-access: write',
    'x-replaces-by: weather\n      x-access: write',
    /x-replaces-by/,
  ],
  ['a body without a limit', 'x-body-limit: 200', 'description: y', /must have an x-body-limit/],
  [
    'an optional body',
    'required: true\n        x-body',
    'required: false\n        x-body',
    /optional request bodies/,
  ],
  [
    'another media type',
    `application/json:\n            schema:\n              ${ORDER}`,
    `text/plain:\n            schema:\n              ${ORDER}`,
    /"text\/plain"/,
  ],
  [
    'a header as a parameter',
    'name: If-None-Match',
    'name: X-Depot',
    /X-Depot: only path and query parameters are supported/,
  ],
  [
    'a cookie as a parameter',
    'in: query\n          schema:\n            type: boolean',
    'in: cookie\n          schema:\n            type: boolean',
    /newest: only path and query parameters/,
  ],
  ['an object in the query', 'type: boolean', 'type: object', /newest: query parameters must be string/],
  [
    'an array of arrays in the query',
    "items:\n              $ref: '#/components/schemas/Kind'",
    'items:\n              type: array\n              items: { type: string }',
    /kind: query parameters must be string/,
  ],
  ['another style in the query', 'name: newest\n', 'name: newest\n          explode: false\n', /"explode"/],
  ['a default out of bounds', 'default: 20', 'default: 51', /limit: the default must be <= 50/],
  ['a default of another type', 'default: 20', "default: '20'", /limit: the default must be integer/],
  [
    'a default of a required parameter',
    '- name: limit\n',
    '- name: limit\n          required: true\n',
    /limit is required, so it cannot have a default/,
  ],
  [
    'a default of where a page begins',
    '- name: limit\n',
    '- name: after\n',
    /after begins a page, so it cannot have a default/,
  ],
  ['a parameter called body', 'name: newest', 'name: body', /cannot be called body/],
  ['a name in the path and the query', 'name: newest', 'name: repo', /two parameters are called repo/],
  ['a status that is not a number', "'204'", 'default', /default/],
  ['a status that HTTP does not have', "'204'", "'600'", /response 600 is not a status code/],
  ['an operation without a name', '      operationId: sendParcel\n', '', /operationId/],
  [
    'a name that is not an identifier',
    'operationId: sendParcel',
    'operationId: send-parcel',
    /send-parcel is not in camel case/,
  ],
  ['a method', '    delete:', '    options:', /"options"/],
  ['two schemes at once', '- accessKey: []', '- accessKey: []\n    other: []', /single scheme/],
  ['something beside a reference', "        '422':\n", "        '422':\n          links: {}\n", /"links"/],
  ['an unknown key of the document', 'openapi: 3.1.0', 'openapi: 3.1.0\nwebhook: {}', /webhook/],
  [
    'no access',
    '      x-access: write\n      x-scopes: [parcels]\n      parameters',
    '      parameters',
    /^DELETE .*number}: x-access must be "read" or "write"/,
  ],
  [
    'no repository',
    `/depots/{owner}/{repo}/parcels/{number}:\n${RECALL}`,
    `/depots/{number}:\n${RECALL.replace(/ +- \$ref.*\n/g, '')}`,
    /^DELETE \/depots\/{number} cannot be served: the path parameter owner is missing/,
  ],
  [
    'an undeclared response of the server',
    "        '403':\n          $ref: '#/components/responses/Error'\n        '404':\n          $ref: '#/components/responses/Error'\n        '422'",
    "        '422'",
    /^DELETE .* cannot be served: the response 404 is missing/,
  ],
  [
    'no 422 for parameters',
    "        '422':\n          $ref: '#/components/responses/Error'\n        '429':\n          $ref: '#/components/responses/Error'\n        '503':\n          $ref: '#/components/responses/Error'\n  /depots",
    "        '429':\n          $ref: '#/components/responses/Error'\n        '503':\n          $ref: '#/components/responses/Error'\n  /depots",
    /^GET .*: the response 422 is missing/,
  ],
  [
    'no example of a request',
    '            example: { to: anybody }\n',
    '',
    /requestBody: an example of the body is missing/,
  ],
  [
    'no example of an answer',
    'example: []',
    'examples: {}',
    /response 200: an example of the body is missing/,
  ],
  ['a redirect', "'204':\n", "'303':\n", /response 303: no handler can return it/],
  [
    'a 304 of a report',
    "'204':\n",
    "'304':\n          description: As before.\n        '204':\n",
    /response 304: only a GET/,
  ],
  [
    'a 304 without a header of the 200',
    "              $ref: '#/components/headers/Total'\n            Link:\n              $ref: '#/components/headers/Link'\n        '401'",
    "              $ref: '#/components/headers/Total'\n        '401'",
    /response 304: the header Link of 200 is missing/,
  ],
  [
    'a 204 with a body',
    'description: Recalled.',
    `description: Recalled.\n          content: { application/json: { example: {}, schema: { ${ORDER} } } }`,
    /response 204: it must not have a body/,
  ],
  ['a success without a body', "'204':", "'200':", /response 200: it must have a body/],
  [
    'a body that is text',
    "type: array\n                items:\n                  $ref: '#/components/schemas/Parcel'",
    'type: string',
    /response 200: its body must be an object or an array/,
  ],
  [
    'an error of another form',
    '        error:\n          type: string',
    '        error:\n          type: string\n        code:\n          type: string',
    /response 401: its body must be an object with the single field error/,
  ],
  [
    'an error with a header of its own',
    'description: An error.\n',
    'description: An error.\n      headers: { X-Why: { required: true, schema: { type: string } } }\n',
    /response 401: the server never sets X-Why/,
  ],
]

t.test('only the answer to a GET has its ETag from the server', (t) => {
  const headers = [{ name: 'ETag', required: true, schema: { type: 'string' } }]
  const reply = { status: 200, schema: {}, headers }
  t.same(handlerHeaders('GET', reply), [])
  t.same(handlerHeaders('POST', reply), headers, 'the handler of a POST sets its own')
  t.end()
})

t.test('rejects what it does not understand or the server cannot serve', async (t) => {
  for (const [what, find, replacement, names] of rejected) {
    t.ok(parcels.includes(find), `${what}: the edit applies`)
    // The last occurrence: an earlier one may belong to another operation.
    const at = parcels.lastIndexOf(find)
    const edited = parcels.slice(0, at) + replacement + parcels.slice(at + find.length)
    await t.rejects(generateFrom(t, edited), { name: 'SpecError', message: names }, what)
  }
})
