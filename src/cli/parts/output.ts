import { once } from 'node:events'
import { characterReplacer, HIDDEN, inLines, replaceHidden } from '../../util/replace-characters.ts'

type Cell = string | number | boolean | readonly string[] | null

/** Rows that are printed at a time. */
const PRINTED_AT_ONCE = 1_000

/**
 * Prints a list to stdout, as fast as it is read: one JSON array for scripts, or aligned columns for
 * people.
 *
 * @param headings of columns that people know by other names than scripts
 */
export async function printList(
  rows: readonly Record<string, Cell>[],
  json: boolean | undefined,
  empty: string,
  headings: Record<string, string> = {},
): Promise<void> {
  const [first] = rows
  if (!first) {
    if (json) print('[]')
    else say(empty)
    return
  }
  if (json) {
    const last = rows.length - 1
    const textOf = (row: Record<string, Cell>, index: number) =>
      `${index === 0 ? '[\n' : ''}${jsonText([row], 2).slice('[\n'.length, -'\n]'.length)}${index === last ? '\n]' : ','}`
    return printAll(rows, textOf)
  }
  const names = Object.keys(first)
  const headingOf = (name: string) => (headings[name] ?? name).toUpperCase()
  const widths = names.map((name) =>
    rows.reduce((width, row) => Math.max(width, [...cellOf(row[name])].length), [...headingOf(name)].length),
  )
  const lineOf = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  print(lineOf(names.map(headingOf)))
  return printAll(rows, (row) => lineOf(names.map((name) => cellOf(row[name]))))
}

async function printAll<Row>(rows: readonly Row[], textOf: (row: Row, index: number) => string) {
  for (const [index, row] of rows.entries()) {
    print(textOf(row, index))
    if (index % PRINTED_AT_ONCE === 0) await drained()
  }
  await drained()
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

/**
 * Resolves once stdout has taken what was printed, so that what a reader has not read yet does not
 * fill the memory.
 */
export async function drained(): Promise<void> {
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
}
