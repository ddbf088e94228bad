import { ofSchema } from './breaking-schemas.ts'
import type { Contract, Operation, Reply } from './spec.ts'

/**
 * Returns the changes that break a client built for `before`, one sentence each: requests that are
 * no longer accepted, and answers that were not declared.
 */
export function breakingChanges(before: Contract, after: Contract): string[] {
  const operations = before.operations.flatMap((operation) => {
    const now = after.operations.find(({ id }) => id === operation.id)
    return now ? ofOperation(operation, now) : [`${operation.id} was removed`]
  })
  return [...ofServers(before, after), ...ofSchemes(before, after), ...operations]
}

/**
 * Tells whether the new version may break clients: it has a higher major number (Semantic
 * Versioning, 8).
 */
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
      `${id}: x-replaces-by changed to ${after.replacesBy ?? 'none'}, which tells clients when to retry`,
    )
  if (before.tags.join() !== after.tags.join())
    found.push(`${id}: tags changed to "${after.tags}", and with them the names in generated clients`)
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
    .map((url) => `the server ${url} was removed`)
}

function ofSchemes(before: Contract, after: Contract): string[] {
  return [...before.schemes].flatMap(([name, rules]) => {
    const now = after.schemes.get(name)
    if (now === undefined) return [`the security scheme ${name} was removed`]
    return now === rules ? [] : [`the security scheme ${name} changed: ${now}`]
  })
}

/**
 * Reports any difference: a removed requirement locks clients out, an added one grants access that
 * was not agreed on.
 */
function ofSecurity({ id, security: before }: Operation, { security: after }: Operation): string[] {
  const nameOf = (requirement: string) => requirement || 'no credential'
  return [
    ...before
      .filter((way) => !after.includes(way))
      .map((way) => `${id}: ${nameOf(way)} is no longer accepted`),
    ...after.filter((way) => !before.includes(way)).map((way) => `${id}: ${nameOf(way)} is newly accepted`),
  ]
}

function ofParameters({ id, parameters: before }: Operation, { parameters: after }: Operation): string[] {
  const find = (parameters: typeof before, wanted: (typeof before)[number]) =>
    parameters.find((parameter) => parameter.name === wanted.name && parameter.in === wanted.in)
  const gone = before
    .filter((parameter) => !find(after, parameter))
    .map(({ name }) => `${id}: parameter ${name} was removed`)
  const others = after.flatMap((parameter) => {
    const former = find(before, parameter)
    const { name, required, schema } = parameter
    if (!former) return required ? [`${id}: new required parameter ${name}`] : []
    const changed = ofSchema(former.schema, schema, 'request', `${id}: ${name}`)
    if (former.deprecated && !parameter.deprecated) changed.push(`${id}: ${name} is no longer deprecated`)
    return required && !former.required ? [`${id}: parameter ${name} is now required`, ...changed] : changed
  })
  return [...gone, ...others]
}

function ofBody({ id, body: before }: Operation, { body: after }: Operation): string[] {
  if (!after) return before ? [`${id}: no longer accepts a body`] : []
  if (!before) return [`${id}: now requires a body`]
  const found = ofSchema(before.schema, after.schema, 'request', `${id}: body`)
  if (after.mediaType !== before.mediaType) found.push(`${id}: bodies are now ${after.mediaType}`)
  if (after.limit < before.limit)
    found.push(`${id}: the body limit shrank from ${before.limit} to ${after.limit} bytes`)
  return found
}

function ofReplies({ id, replies: before }: Operation, { replies: after }: Operation): string[] {
  const gone = [...before].flatMap(([status, reply]) => {
    const now = after.get(status)
    return now ? ofReply(reply, now, `${id}: ${status}`) : [`${id}: ${status} was removed`]
  })
  const added = [...after.keys()].filter((status) => !before.has(status))
  return [...gone, ...added.map((status) => `${id}: ${status} was added, which no client expects`)]
}

function ofReply(before: Reply, after: Reply, where: string): string[] {
  const found = before.headers.flatMap(({ name, required, schema }) => {
    const now = after.headers.find((header) => header.name === name)
    // A client copes with an optional header's absence.
    if (!now) return required ? [`${where}: header ${name} was removed`] : []
    const optional = required && !now.required ? [`${where}: header ${name} is now optional`] : []
    return [...optional, ...ofSchema(schema, now.schema, 'answer', `${where}: header ${name}`)]
  })
  if (!before.content || !after.content) {
    if (before.content !== after.content)
      found.push(`${where}: ${after.content ? 'now has a body' : 'no longer has a body'}`)
    return found
  }
  if (before.content.mediaType !== after.content.mediaType)
    found.push(`${where}: is now ${after.content.mediaType}`)
  return [...found, ...ofSchema(before.content.schema, after.content.schema, 'answer', where)]
}
