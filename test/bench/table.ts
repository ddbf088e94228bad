import { type Aim, isReached, type Row } from './row.ts'

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
  'aim',
  'reached',
  'against',
]
/** Columns of words, which begin at the left. */
const WORDS = [0, HEAD.indexOf('against')]

/** Lines of text, one for each row and one above them. */
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
    row.aim ? aimText(row.aim) : '',
    isReached(row),
    row.against ?? '',
  ])
  const all = [HEAD, ...cells]
  const widths = HEAD.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)))
  const line = (texts: string[]) =>
    texts.map((text, column) => {
      const width = widths[column] ?? 0
      return WORDS.includes(column) ? text.padEnd(width) : text.padStart(width)
    })
  return all.map((texts) => `${line(texts).join('  ').trimEnd()}\n`).join('')
}

export function aimText(aim: Aim): string {
  return 'atLeast' in aim ? `≥ ${aim.atLeast}` : `≤ ${aim.atMost}`
}

/** Three digits where there are no more before the point. */
function decimals(value: number): string {
  return value < 100 ? value.toPrecision(3) : value.toFixed(0)
}
