import ts from 'typescript'
import { call, type Edit, hasProperties, initializerOf, isText, node, property, value } from './edit.ts'

const SCHEMAS = 'generated/schemas.ts'
const OPERATIONS = 'generated/operations.ts'

/** Mutants of the server that the contract run must detect, by name. */
export const mutants: Readonly<Record<string, readonly Edit[]>> = {
  'a field is dropped': [openReport(), withBody((body) => `(({ target_url, ...rest }) => rest)(${body})`)],
  'one property too many': [openReport(), withBody((body) => `{ ...${body}, repository_id: 1 }`)],
  'statuses are ordered by id': [
    call('src/store', 'orderBy', ({ arguments: [column] }, receiver) =>
      isText(column, 'context') ? `${receiver}.orderBy('id')` : undefined,
    ),
  ],
  'a report answers 200': [
    call('src/api', 'code', ({ arguments: [status] }, receiver) => {
      const code = `(${status?.getText()})`
      return `${receiver}.code(${code} === 201 ? 200 : ${code})`
    }),
  ],
  'a limit is off by one: a character': [
    value(SCHEMAS, ['StatusReport', 'properties', 'description', 'maxLength'], (limit) => `${limit} + 1`),
  ],
  'a limit is off by one: a byte of the body': [
    value(OPERATIONS, ['reportStatus', 'bodyLimit'], (limit) => `${limit} - 1`),
  ],
  'a limit is off by one: a byte of a field': [
    value(SCHEMAS, ['StatusReport', 'properties', 'target_url', 'x-max-bytes'], (limit) => `${limit} + 1`),
  ],
  'lengths are counted in UTF-16': [
    property('src/api', 'coerceTypes', (option) => `${option.getText()}, unicode: false`),
  ],
  'a wrong type is coerced': [
    property('src/api', 'coerceTypes', ({ kind }) =>
      kind === ts.SyntaxKind.FalseKeyword ? 'true' : undefined,
    ),
  ],
  'a header is missing: Vary': [withoutHeader('vary')],
  'a header is missing: ETag': [withoutHeader('etag')],
  'the combined state is stale': [
    property('src/api', 'state', (state, object) => {
      if (!hasProperties(object, 'statuses')) return undefined
      const remember = `((sha, state) => {
        const states = globalThis.statesOfCommits ??= new Map()
        if (!states.has(sha)) states.set(sha, state)
        return states.get(sha)
      })`
      return `${remember}((${initializerOf(object, 'statuses')})[0]?.sha, ${state.getText()})`
    }),
  ],
  'a required check that has not reported counts as passed': [
    node('src/domain', (condition) =>
      ts.isBinaryExpression(condition) &&
      condition.operatorToken.kind === ts.SyntaxKind.AmpersandAmpersandToken &&
      ts.isIdentifier(condition.left) &&
      ts.isBinaryExpression(condition.right) &&
      isText(condition.right.right, 'failure')
        ? 'false'
        : undefined,
    ),
  ],
  'a commit whose checks have not reported has passed': [
    node('src/branches/last-passed.ts', (comparison) =>
      ts.isBinaryExpression(comparison) &&
      comparison.operatorToken.kind === ts.SyntaxKind.EqualsEqualsEqualsToken &&
      isText(comparison.right, 'success')
        ? `${comparison.left.getText()} !== 'failure'`
        : undefined,
    ),
  ],
  'a page of branches begins with the last one of the page before': [
    call('src/branches', 'compare', ({ parent, arguments: all }, receiver) =>
      ts.isBinaryExpression(parent)
        ? `${receiver}.compare(${all.map((argument) => argument.getText()).join(', ')}) + 1`
        : undefined,
    ),
  ],
  'an error is no JSON': [
    call('src/replies', 'stringify', ({ arguments: [body] }) =>
      body && ts.isObjectLiteralExpression(body) && hasProperties(body, 'error')
        ? initializerOf(body, 'error')
        : undefined,
    ),
  ],
  'a private repository differs from a missing one': [
    node('src/store', (template) =>
      ts.isTemplateHead(template) || ts.isNoSubstitutionTemplateLiteral(template)
        ? replaced(template, "visibility = 'public'", 'visibility is not null')
        : undefined,
    ),
  ],
  'a reader may write': [
    call('src/auth', 'allows', ({ arguments: [permission, needed] }) =>
      isText(needed, 'write') ? `${permission?.getText()} !== null` : undefined,
    ),
  ],
  'a revoked token goes on working': [
    neverThrows('src/store/token-validity.ts', 'credential_unknown'),
    neverThrows('src/auth', 'scope_missing'),
  ],
  'a replacing report gets a new id': [
    call(
      'src/store/sqlite',
      'doUpdateSet',
      ({ arguments: [changes] }, receiver) =>
        changes && `${receiver}.doUpdateSet({ ...${changes.getText()}, id: (eb) => eb.ref('excluded.id') })`,
    ),
  ],
  'text is trimmed': [ofReport('description', (text) => `(${text})?.trim() ?? null`)],
  'text is normalized': [ofReport('context', (text) => `(${text}).normalize()`)],
  'an empty description is taken for none': [ofReport('description', (text) => `(${text}) || null`)],
  'a message does not name the field': [
    node('src/api', (access) =>
      ts.isPropertyAccessExpression(access) && access.name.text === 'instancePath' ? `''` : undefined,
    ),
  ],
  'missing repository files are 404': [
    node('src/replies', (created) =>
      ts.isNewExpression(created) && isText(created.arguments?.[0], 'unavailable')
        ? `new ${created.expression.getText()}('repository_unknown')`
        : undefined,
    ),
  ],
}

/** Lets the serializer of a report's answer pass every property. */
function openReport(): Edit {
  return value(OPERATIONS, ['reportStatus', 'replies', '201'], () => '{}')
}

/** Changes the body that the handler of a report answers with. */
function withBody(change: (body: string) => string): Edit {
  return property('src/api', 'body', (body, answer) =>
    initializerOf(answer, 'status') === '201' ? change(body.getText()) : undefined,
  )
}

function withoutHeader(name: string): Edit {
  return call('src/api', 'header', ({ arguments: [header] }, receiver) =>
    isText(header, name) ? receiver : undefined,
  )
}

/** Disables the `if` statements that throw an error with this code. */
function neverThrows(under: string, code: string): Edit {
  return node(under, (statement) => {
    if (!ts.isIfStatement(statement) || !ts.isThrowStatement(statement.thenStatement)) return undefined
    const { expression } = statement.thenStatement
    return ts.isNewExpression(expression) && isText(expression.arguments?.[0], code) ? ';' : undefined
  })
}

/** Changes the value of a report that the handler passes to the store. */
function ofReport(field: string, change: (text: string) => string): Edit {
  return node('src/api', (fields) => {
    if (!ts.isSpreadAssignment(fields) || fields.expression.getText() !== 'body') return undefined
    return `...body, ${field}: ${change(`body.${field}`)}`
  })
}

function replaced(template: ts.Node, from: string, to: string): string | undefined {
  const text = template.getText()
  return text.includes(from) ? text.replaceAll(from, to) : undefined
}
