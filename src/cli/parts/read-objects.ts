import { createReadStream } from 'node:fs'
import { text } from 'node:stream/consumers'
import { Option } from 'commander'
import { callerPath, UsageError } from './arguments.ts'

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
 * @throws UsageError if both or neither are given, and naming the line that is wrong
 */
export async function readObjects<Field extends string>(
  name: string | undefined,
  from: string | undefined,
  fields: readonly Field[],
): Promise<({ name: string } & { [name in Field]?: string })[]> {
  if (from === undefined) throw new UsageError('missing name (or pass many with --from)')
  if (name !== undefined) throw new UsageError('pass either a name or --from, not both')
  const lines = (await text(from === '-' ? process.stdin : createReadStream(callerPath(from)))).split('\n')
  return lines.flatMap((line, index) => {
    const problem = (what: string) => new UsageError(`line ${index + 1} of --from: ${what}`)
    return line.trim() === '' ? [] : [readObject(line, ['name', ...fields], problem)]
  })
}

function readObject<Field extends string>(
  line: string,
  fields: readonly Field[],
  problem: (what: string) => UsageError,
): { name: string } & { [name in Field]?: string } {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    throw error instanceof SyntaxError ? problem('not JSON') : error
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw problem('not a JSON object')
  const object: { [name in Field]?: string } = {}
  let name: string | undefined
  const entries: [string, unknown][] = Object.entries(value)
  for (const [field, content] of entries) {
    const key = fields.find((text) => text === field)
    if (key === undefined) throw problem(`unknown field "${field}" (expected ${fields.join(', ')})`)
    if (content === null) continue
    if (typeof content !== 'string') throw problem(`"${field}" is not a text`)
    if (key === 'name') name = content
    object[key] = content
  }
  if (name === undefined) throw problem('"name" is missing')
  return { ...object, name }
}
