import { addState, type Edits } from './contract-copy.ts'

/**
 * An operation with a paged list: without a commit, with query parameters and headers of its own.
 */
export const OPERATION: Edits = {
  'openapi.yaml': [
    [
      '\ncomponents:\n',
      `
  /api/v1/repos/{owner}/{repo}/states:
    get:
      operationId: listStates
      summary: List the states that reports can have
      x-access: read
      x-scopes: [repo]
      security:
        - bearerToken: []
        - accessToken: []
        - {}
      parameters:
        - $ref: '#/components/parameters/Owner'
        - $ref: '#/components/parameters/Repo'
        - $ref: '#/components/parameters/IfNoneMatch'
        - { name: limit, in: query, schema: { type: integer, minimum: 1, maximum: 3, default: 2 } }
        - { name: at, in: query, required: true, schema: { type: string, format: date-time } }
        - { name: note, in: query, schema: { type: string, x-max-bytes: 40 } }
        - { name: place, in: query, schema: { type: string, maxLength: 11, pattern: '^[0-9]{1,8}_[a-z]{2}$', x-rule: must be a place } }
        - { name: after, in: query, schema: { $ref: '#/components/schemas/State' } }
        - { name: hide, in: query, schema: { type: array, maxItems: 2, items: { $ref: '#/components/schemas/State' } } }
      responses:
        '200':
          description: One page.
          headers: &headers
            ETag: { $ref: '#/components/headers/ETag' }
            X-Request-Id: { $ref: '#/components/headers/X-Request-Id' }
            Cache-Control: { $ref: '#/components/headers/Cache-Control' }
            Vary: { $ref: '#/components/headers/Vary' }
            X-Total-Count: { required: true, schema: { type: string, pattern: '^[0-9]+$' } }
            Link: { schema: { type: string } }
          content:
            application/json:
              example: { states: [pending], next: null }
              schema:
                type: object
                required: [states, next]
                properties:
                  states: { type: array, items: { $ref: '#/components/schemas/State' } }
                  next: { oneOf: [{ $ref: '#/components/schemas/State' }, { type: 'null' }] }
        '304': { description: As before., headers: *headers }
        '401': { $ref: '#/components/responses/Unauthorized' }
        '403': { $ref: '#/components/responses/Forbidden' }
        '404': { $ref: '#/components/responses/NotFound' }
        '422': { $ref: '#/components/responses/UnprocessableContent' }
        '429': { $ref: '#/components/responses/TooManyRequests' }
        '503': { $ref: '#/components/responses/ServiceUnavailable' }
components:
`,
    ],
  ],
  'src/api/handlers.ts': [
    [
      'import { combinedState,',
      "import { schemas } from '../../generated/schemas.ts'\nimport { combinedState,",
    ],
    [
      '    async listStatuses(',
      `    async listStates({ query }) {
      const { limit, after, hide = [] } = query
      const shown = schemas.State.enum.filter((state) => !hide.includes(state))
      const start = after === undefined ? 0 : shown.indexOf(after) + 1
      const states = shown.slice(start, start + limit)
      const next = start + limit < shown.length ? (states.at(-1) ?? null) : null
      const headers = { 'X-Total-Count': String(shown.length), ...linkTo(query, next) }
      return { status: 200, body: { states, next }, headers }
    },

    async listStatuses(`,
    ],
  ],
}

/** Lengths that differ from those of the contract and from each other. */
export const [CONTEXT, PATTERN, BRANCH] = [271, 272, 273]
export const LIMIT: Edits = {
  'openapi.yaml': [
    [/(\n {4}Context:[\s\S]*?maxLength:) \d+/, `$1 ${CONTEXT}`],
    [/(\n {4}ContextPattern:[\s\S]*?maxLength:) \d+/, `$1 ${PATTERN}`],
    [/(\n {4}Branch:[\s\S]*?maxLength:) \d+/, `$1 ${BRANCH}`],
  ],
}
// Names that no real change takes, so that this test goes on after it.
export const FIELD: Edits = {
  'openapi.yaml': [
    [/(\n {4}StatusReport:\n[\s\S]*?properties:\n)/, '$1        rehearsed_field: { type: integer }\n'],
  ],
}
export const STORED_FIELD: Edits = {
  'openapi.yaml': [
    [
      /(\n {4}StatusReport:\n[\s\S]*?properties:\n)/,
      '$1        rehearsed_column: { type: string, maxLength: 40, pattern: "^[a-z-]*$", x-rule: must be letters }\n        rehearsed_number: { type: integer }\n',
    ],
    [/(\n {4}Status:\n[\s\S]*?required: \[)/, '$1rehearsed_column, rehearsed_number, '],
    [
      /(\n {4}Status:\n[\s\S]*?properties:\n)/,
      '$1        rehearsed_column: { oneOf: [{ type: string }, { type: "null" }] }\n        rehearsed_number: { oneOf: [{ type: integer }, { type: "null" }] }\n',
    ],
  ],
  'src/store/statuses/columns.ts': [
    [
      '  created_at: {',
      `  rehearsed_column: { ...reportedText, onReplace: 'replaced' },
  rehearsed_number: { ...reportedText, type: 'integer', onReplace: 'replaced' },
  created_at: {`,
    ],
  ],
  'src/store/schema/migrations.ts': [
    [
      /(\nexport const migrations\b[\s\S]*?)\n\}\n/,
      `$1\n  '999-rehearsed': () =>
    ['column text', 'number integer'].map((column) => \`alter table statuses add column rehearsed_\${column}\`),\n}\n`,
    ],
  ],
}
/** States that count as success and as failure. */
export const [PASS, FAIL] = ['rehearsed_pass', 'rehearsed_fail']
export const STATE: Edits = {
  'openapi.yaml': [...addState(PASS, 'success'), ...addState(FAIL, 'failure')],
  'clients/shell/commit-status': [[/(\n {2}pending \|[^)]*)\)/, `$1 | ${PASS} | ${FAIL})`]],
}

/** Returns all of the edits above, since compiling is slow. */
export function allEdits(): Edits {
  const all = [LIMIT, FIELD, STORED_FIELD, STATE, OPERATION]
  const files = new Set(all.flatMap((edits) => Object.keys(edits)))
  return Object.fromEntries([...files].map((file) => [file, all.flatMap((edits) => edits[file] ?? [])]))
}
