import { entries, type Json, type JsonObject, object } from './json.ts'

/**
 * Changes an unresolved contract.
 *
 * @param place words: the id of an operation, or the name of a schema or of a part of the document,
 * then keys
 * @param value undefined removes what is there
 */
export function changeDocument(document: JsonObject, place: string, value?: Json): void {
  const [name = '', ...keys] = place.split(' ')
  const path = [...startOf(document, name), ...keys]
  const last = path.pop() ?? ''
  let holder: Json | undefined = document
  for (const key of path) holder = Array.isArray(holder) ? holder[Number(key)] : object(holder, place)[key]
  if (Array.isArray(holder)) holder.splice(Number(last), 1, ...(value === undefined ? [] : [value]))
  else if (value === undefined) delete object(holder, place)[last]
  else object(holder, place)[last] = value
}

function startOf(document: JsonObject, name: string): string[] {
  const { schemas } = object(document.components, 'components')
  if (name in object(schemas, 'schemas')) return ['components', 'schemas', name]
  for (const [path, item] of entries(document.paths))
    for (const [method, operation] of entries(item))
      if (object(operation, path).operationId === name) return ['paths', path, method]
  return [name]
}
