import { ofSchema } from './breaking-schemas.ts'
import type { Contract, Operation, Reply } from './spec.ts'

/**
 * What a client that was built for `before` can no longer rely on in `after`: less is accepted than was, or more is
 * answered than was declared. Each is one sentence; none: nothing breaks.
 */
export function breakingChanges(before: Contract, after: Contract): string[] {
  const operations = before.operations.flatMap((operation) => {
    const now = after.operations.find(({ id }) => id === operation.id)
    return now ? ofOperation(operation, now) : [`${operation.id} is gone`]
  })
  return [...ofServers(before, after), ...ofSchemes(before, after), ...operations]
}

/** Whether the new version says that clients may break: another major number (Semantic Versioning, 8). */
export function allowsBreaking(before: Contract, after: Contract): boolean {
  return Number.parseInt(after.version, 10) > Number.parseInt(before.version, 10)
}

function ofOperation(before: Operation, after: Operation): string[] {
  const { id } = before
  const found: string[] = []
  if (before.method !== after.method || before.path !== after.path) {
    found.push(`${id} moved from ${before.method} ${before.path} to ${after.method} ${after.path}`)
  }
  if (before.access === 'read' && after.access !== 'read')
    found.push(`${id} now needs ${after.access} access`)
  if (before.replacesBy !== null && before.replacesBy !== after.replacesBy)
    found.push(
      `${id}: x-replaces-by is ${after.replacesBy ?? 'gone'}, so clients repeat requests by another rule`,
    )
  return [
    ...found,
    ...ofSecurity(before, after),
    ...ofParameters(before, after),
    ...ofBody(before, after),
    ...ofReplies(before, after),
  ]
}

function ofServers(before: Contract, after: Contract): string[] {
  return before.servers
    .filter((url) => !after.servers.includes(url))
    .map((url) => `the server ${url} is gone`)
}

function ofSchemes(before: Contract, after: Contract): string[] {
  return [...before.schemes].flatMap(([name, rules]) => {
    const now = after.schemes.get(name)
    if (now === undefined) return [`the security scheme ${name} is gone`]
    return now === rules ? [] : [`the security scheme ${name} is another: ${now}`]
  })
}

/** Any difference: what is no longer enough locks clients out, and what is enough now was not agreed on. */
function ofSecurity({ id, security: before }: Operation, { security: after }: Operation): string[] {
  const nameOf = (requirement: string) => requirement || 'no credential'
  return [
    ...before.filter((way) => !after.includes(way)).map((way) => `${id}: ${nameOf(way)} is no longer enough`),
    ...after.filter((way) => !before.includes(way)).map((way) => `${id}: ${nameOf(way)} is enough now`),
  ]
}

function ofParameters({ id, parameters: before }: Operation, { parameters: after }: Operation): string[] {
  const find = (parameters: typeof before, wanted: (typeof before)[number]) =>
    parameters.find((parameter) => parameter.name === wanted.name && parameter.in === wanted.in)
  const gone = before
    .filter((parameter) => !find(after, parameter))
    .map(({ name }) => `${id}: parameter ${name} is gone`)
  const others = after.flatMap((parameter) => {
    const former = find(before, parameter)
    const { name, required, schema } = parameter
    if (!former) return required ? [`${id}: new parameter ${name}`] : []
    const changed = ofSchema(former.schema, schema, 'request', `${id}: ${name}`)
    return required && !former.required ? [`${id}: parameter ${name} is required now`, ...changed] : changed
  })
  return [...gone, ...others]
}

function ofBody({ id, body: before }: Operation, { body: after }: Operation): string[] {
  if (!after) return before ? [`${id}: takes no body any more`] : []
  if (!before) return [`${id}: now needs a body`]
  const found = ofSchema(before.schema, after.schema, 'request', `${id}: body`)
  if (after.mediaType !== before.mediaType) found.push(`${id}: bodies are ${after.mediaType} now`)
  if (after.limit < before.limit)
    found.push(`${id}: bodies are at most ${after.limit} bytes, not ${before.limit}`)
  return found
}

function ofReplies({ id, replies: before }: Operation, { replies: after }: Operation): string[] {
  const gone = [...before].flatMap(([status, reply]) => {
    const now = after.get(status)
    return now ? ofReply(reply, now, `${id}: ${status}`) : [`${id}: ${status} is gone`]
  })
  const added = [...after.keys()].filter((status) => !before.has(status))
  return [...gone, ...added.map((status) => `${id}: ${status} is new, and no client knows it`)]
}

function ofReply(before: Reply, after: Reply, where: string): string[] {
  const found = before.headers.flatMap(({ name, required, schema }) => {
    const now = after.headers.find((header) => header.name === name)
    if (!now) return [`${where}: header ${name} is gone`]
    const optional = required && !now.required ? [`${where}: header ${name} may be missing now`] : []
    return [...optional, ...ofSchema(schema, now.schema, 'answer', `${where}: header ${name}`)]
  })
  if (!before.content || !after.content) {
    if (before.content !== after.content)
      found.push(`${where}: ${after.content ? 'has a body now' : 'has no body any more'}`)
    return found
  }
  if (before.content.mediaType !== after.content.mediaType)
    found.push(`${where}: is ${after.content.mediaType} now`)
  return [...found, ...ofSchema(before.content.schema, after.content.schema, 'answer', where)]
}
