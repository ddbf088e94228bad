import { type Aim, isReached, type Row } from './row.ts'
import { aimText } from './table.ts'

/** Pixels: of a line, of the names, of the bars, and of the figures behind them. */
const [LINE, NAMES, BARS, FIGURES] = [26, 420, 320, 150]
const [TOP, BOTTOM] = [64, 20]
/** How many times what is aimed at the longest bar can show. */
const MOST = 2
/** Legible on white and on black. */
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px } .small { font-size: 12px } .end { text-anchor: end }
  .yes { fill: #2da44e } .cpu { fill: #8fbf8f } .no { fill: #d1242f } .aim { stroke: #57606a; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .aim { stroke: #9198a1 } }`

/** An SVG of how every row with an aim stands to it. The longer a bar, the better; what is aimed at is one line. */
export function chartOf(rows: Row[], subtitle: string): string {
  const aimed = rows.filter(({ aim, ratio }) => aim !== undefined && ratio !== undefined)
  const [width, height] = [NAMES + BARS + FIGURES, TOP + aimed.length * LINE + BOTTOM]
  const aimAt = NAMES + BARS / MOST
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img">
<title>Ratios to what they are compared with</title>
<style>${STYLE}</style>
<text class="title" x="8" y="22">How it stands to what is aimed at</text>
<text class="small" x="8" y="42">${escaped(subtitle)}</text>
<text class="small" x="${aimAt}" y="${TOP - 6}" text-anchor="middle">aim</text>
${aimed.map((row, index) => lineOf(row, TOP + index * LINE)).join('\n')}
<line class="aim" x1="${aimAt}" x2="${aimAt}" y1="${TOP}" y2="${height - BOTTOM}"/>
</svg>
`
}

function lineOf({ aim, ratio, ...row }: Row, y: number): string {
  if (aim === undefined || ratio === undefined) return ''
  const kind = { yes: 'yes', 'by CPU': 'cpu', no: 'no', '': '' }[isReached({ ...row, aim, ratio })]
  const bar = Math.min(MOST, timesTheAim(ratio, aim)) * (BARS / MOST)
  const base = y + LINE / 2 + 5
  return `<text class="end" x="${NAMES - 10}" y="${base}">${escaped(row.name)}</text>
<rect class="${kind}" x="${NAMES}" y="${y + 5}" width="${bar.toFixed(1)}" height="${LINE - 10}" rx="2"/>
<text x="${NAMES + BARS + 10}" y="${base}">${ratio.toFixed(2)} (${aimText(aim)})</text>`
}

function timesTheAim(ratio: number, aim: Aim): number {
  return 'atLeast' in aim ? ratio / aim.atLeast : aim.atMost / ratio
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
