import type { CommitStatuses } from '../typescript/src/index.ts'

/** Prints a commit's combined state and its statuses. */
export function printCommit(title: string, sha: string, { state, statuses }: CommitStatuses): void {
  say(`${title}: commit ${sha.slice(0, 10)} is ${state ?? 'without statuses'}`)
  const rows = statuses.map((status) => [status.context, status.state, status.description ?? ''])
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) {
    const line = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
    process.stdout.write(`    ${line.trimEnd()}\n`)
  }
}

/** Prints a paragraph to stdout. */
export function say(text: string): void {
  process.stdout.write(`\n${text}\n`)
}
