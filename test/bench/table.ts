import { isReached, type Row, type Target } from './row.ts'

const HEAD = [
  '',
  'median',
  'spread',
  'p50 ms',
  'p99 ms',
  'CPU µs',
  'busy',
  'ratio',
  'by CPU',
  'target',
  'reached',
  'against',
]

export function tableOf(rows: Row[]): string {
  const cells = rows.map((row) => [
    row.name,
    `${decimals(row.value)} ${row.unit}`,
    row.spread === undefined ? '' : `${(row.spread * 100).toFixed(0)} %`,
    row.p50?.toFixed(2) ?? '',
    row.p99?.toFixed(1) ?? '',
    row.cpu?.toFixed(1) ?? '',
    row.busy?.toFixed(2) ?? '',
    row.ratio?.toFixed(2) ?? '',
    row.cpuRatio?.toFixed(2) ?? '',
    row.target ? targetText(row.target) : '',
    isReached(row),
    row.against ?? '',
  ])
  return textTable(HEAD, cells, [0, HEAD.length - 1])
}

/** Returns a table with a line for the head. @param left columns that are aligned left */
export function textTable(head: string[], cells: string[][], left = [0]): string {
  const all = [head, ...cells]
  const widths = head.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)))
  const line = (texts: string[]) =>
    texts.map((text, column) => {
      const width = widths[column] ?? 0
      return left.includes(column) ? text.padEnd(width) : text.padStart(width)
    })
  return all.map((texts) => `${line(texts).join('  ').trimEnd()}\n`).join('')
}

export function targetText(target: Target): string {
  return 'atLeast' in target ? `≥ ${target.atLeast}` : `≤ ${target.atMost}`
}

/** Formats with three significant digits, or as an integer from 100. */
function decimals(value: number): string {
  return value < 100 ? value.toPrecision(3) : value.toFixed(0)
}
