import { createReadStream } from 'node:fs'
import { text } from 'node:stream/consumers'
import { Option } from 'commander'
import { callerPath, UsageError } from './arguments.ts'

/** One transaction creates all objects, which keeps others from writing to the database. */
export const MAX_OBJECTS = 2_000

/** Returns the option `--from`. @param what it creates */
export function fromOption(what: string): Option {
  return new Option('--from <file>', `read one JSON object a line, from standard input with "-": ${what}`)
}

/**
 * Reads the objects of `--from`: a `name` each and, if wanted, other fields that `list --json`
 * prints. A field that is null counts as missing.
 *
 * @param name the argument that `--from` replaces
 * @param fields names of the other fields, which are texts
 * @throws UsageError if both or neither are given, for more than `MAX_OBJECTS`, and naming the line
 * that is wrong
 */
export async function readObjects<Field extends string>(
  name: string | undefined,
  from: string | undefined,
  fields: readonly Field[],
): Promise<({ name: string } & { [name in Field]?: string })[]> {
  if (from === undefined) throw new UsageError('missing name (or pass many with --from)')
  if (name !== undefined) throw new UsageError('pass either a name or --from, not both')
  const objects = await readLines(from, ['name'], fields)
  if (objects.length > MAX_OBJECTS)
    throw new UsageError(
      `--from has ${objects.length} objects; at most ${MAX_OBJECTS.toLocaleString('en')} are created at once. Pass them in parts`,
    )
  return objects
}

/**
 * Reads the objects of `--from`. A field that is null counts as missing.
 *
 * @param required names of fields that each object has; all are texts
 * @param optional names of the others
 * @throws UsageError naming the line that is wrong
 */
export async function readLines<Required extends string, Optional extends string>(
  from: string,
  required: readonly Required[],
  optional: readonly Optional[],
): Promise<Fields<Required, Optional>[]> {
  const lines = (await text(from === '-' ? process.stdin : createReadStream(callerPath(from)))).split('\n')
  return lines.flatMap((line, index) => {
    const problem = (what: string) => new UsageError(`line ${index + 1} of --from: ${what}`)
    return line.trim() === '' ? [] : [readObject(line, required, optional, problem)]
  })
}

type Fields<Required extends string, Optional extends string> = { [name in Required]: string } & {
  [name in Optional]?: string
}

function readObject<Required extends string, Optional extends string>(
  line: string,
  required: readonly Required[],
  optional: readonly Optional[],
  problem: (what: string) => UsageError,
): Fields<Required, Optional> {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    throw error instanceof SyntaxError ? problem('not JSON') : error
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw problem('not a JSON object')
  const known: readonly string[] = [...required, ...optional]
  const object: Record<string, string> = {}
  const entries: [string, unknown][] = Object.entries(value)
  for (const [field, content] of entries) {
    if (!known.includes(field)) throw problem(`unknown field "${field}" (expected ${known.join(', ')})`)
    if (content === null) continue
    if (typeof content !== 'string') throw problem(`"${field}" is not a text`)
    object[field] = content
  }
  const missingField = required.find((field) => object[field] === undefined)
  if (missingField !== undefined) throw problem(`"${missingField}" is missing`)
  // All fields are known, and those that are required are there.
  return object as Fields<Required, Optional>
}
