type Cell = string | boolean | readonly string[] | null

/** Prints a list to stdout: one JSON array for scripts, or aligned columns for people. */
export function printList(
  rows: readonly Record<string, Cell>[],
  json: boolean | undefined,
  empty: string,
): void {
  if (json) {
    print(JSON.stringify(rows, null, 2))
    return
  }
  const [first] = rows
  if (!first) {
    process.stderr.write(`${empty}\n`)
    return
  }
  const names = Object.keys(first)
  const cells = [
    names.map((name) => name.toUpperCase()),
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
  const text = [value ?? []].flat().join(' ') || '-'
  // Contexts and names come from others: they must not send control characters to the terminal.
  return text.replace(/\p{Cc}/gu, '\ufffd')
}

/** Prints one line to stdout. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
