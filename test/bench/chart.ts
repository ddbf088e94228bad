import { isReached, type Row, type Target } from './row.ts'
import { targetText } from './table.ts'

/** Pixels: height of a row; widths of the names, the bars and the figures. */
const [ROW, NAMES, BARS, FIGURES] = [38, 350, 320, 170]
const [TOP, BOTTOM] = [84, 16]
/** The longest bar, as a multiple of the target. */
const MAX = 2
/** Legible on light and dark backgrounds. */
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #57606a }
  .end { text-anchor: end } .middle { text-anchor: middle }
  .yes { fill: #2da44e } .cpu { fill: #8c959f } .no { fill: #d1242f } .target { stroke: #57606a; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .target { stroke: #9198a1 } }`

/**
 * Returns an SVG with a bar for every row that has a target. Longer is better; one line marks the
 * target.
 */
export function chartOf(rows: Row[], subtitle: string): string {
  const targeted = rows.filter(({ target, ratio }) => target !== undefined && ratio !== undefined)
  const [width, height] = [NAMES + BARS + FIGURES, TOP + targeted.length * ROW + BOTTOM]
  const targetAt = NAMES + BARS / MAX
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>The server compared with baselines that do less</title>
<style>${STYLE}</style>
<text class="title" x="8" y="22">The server compared with baselines that do less</text>
<text class="small" x="8" y="42">${escaped(subtitle)}</text>
<text class="small" x="8" y="58">The line marks the target. Grey: the load generator was the bottleneck, and the target is met by processor time.</text>
<text class="small middle" x="${targetAt}" y="${TOP - 6}">target</text>
${targeted.map((row, index) => lineOf(row, TOP + index * ROW)).join('\n')}
<line class="target" x1="${targetAt}" x2="${targetAt}" y1="${TOP}" y2="${height - BOTTOM}"/>
</svg>
`
}

function lineOf(row: Row, y: number): string {
  const { name, against = '', target, ratio, cpuRatio } = row
  if (target === undefined || ratio === undefined) return ''
  const kind = { yes: 'yes', 'by CPU': 'cpu', no: 'no', '': '' }[isReached(row)]
  const bar = Math.min(MAX, timesTheTarget(ratio, target)) * (BARS / MAX)
  const byProcessor = kind === 'cpu' && cpuRatio !== undefined ? `, by CPU ${cpuRatio.toFixed(2)}` : ''
  return `<text class="end" x="${NAMES - 10}" y="${y + 17}">${escaped(name)}</text>
<text class="small end" x="${NAMES - 10}" y="${y + 31}">to ${escaped(against)}</text>
<rect class="${kind}" x="${NAMES}" y="${y + 8}" width="${bar.toFixed(1)}" height="${ROW - 18}" rx="2"/>
<text x="${NAMES + BARS + 10}" y="${y + 23}">${ratio.toFixed(2)} (${targetText(target)}${byProcessor})</text>`
}

function timesTheTarget(ratio: number, target: Target): number {
  return 'atLeast' in target ? ratio / target.atLeast : target.atMost / ratio
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
