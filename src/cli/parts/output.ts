import { characterReplacer, HIDDEN, inLines, replaceHidden } from '../../util/replace-characters.ts'

type Cell = string | number | boolean | readonly string[] | null

/**
 * Prints a list to stdout: one JSON array for scripts, or aligned columns for people.
 *
 * @param headings of columns that people know by other names than scripts
 */
export function printList(
  rows: readonly Record<string, Cell>[],
  json: boolean | undefined,
  empty: string,
  headings: Record<string, string> = {},
): void {
  if (json) {
    print(jsonText(rows, 2))
    return
  }
  const [first] = rows
  if (!first) {
    say(empty)
    return
  }
  const names = Object.keys(first)
  const cells = [
    names.map((name) => (headings[name] ?? name).toUpperCase()),
    ...rows.map((row) => names.map((name) => cellOf(row[name]))),
  ]
  const widths = names.map((_name, column) =>
    Math.max(...cells.map((line) => [...(line[column] ?? '')].length)),
  )
  for (const line of cells) {
    print(
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
  }
}

function cellOf(value: Cell | undefined): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return replaceHidden([value ?? []].flat().join(' ')) || '-'
}

const escapeHidden = characterReplacer(
  HIDDEN,
  // JSON knows UTF-16 code units.
  inLines((character) =>
    character.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  ),
)

/** Returns JSON in which hidden characters are escaped. */
export function jsonText(value: unknown, indent?: number): string {
  return escapeHidden(JSON.stringify(value, null, indent))
}

/** Returns a number with its noun: `1 session`, `2 sessions`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`
}

/** Prints a sentence to stderr. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`)
}

/** Prints a line that scripts may read to stdout. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
