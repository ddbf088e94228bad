import { type Aim, isReached, type Row } from './row.ts'
import { aimText } from './table.ts'

/** Pixels: of a row, of the names, of the bars, and of the figures behind them. */
const [ROW, NAMES, BARS, FIGURES] = [38, 350, 320, 170]
const [TOP, BOTTOM] = [84, 16]
/** How many times what is aimed at the longest bar can show. */
const MOST = 2
/** Legible on white and on black. */
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #57606a }
  .end { text-anchor: end } .middle { text-anchor: middle }
  .yes { fill: #2da44e } .cpu { fill: #8c959f } .no { fill: #d1242f } .aim { stroke: #57606a; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .aim { stroke: #9198a1 } }`

/** An SVG of how every row with an aim stands to it. The longer a bar, the better; what is aimed at is one line. */
export function chartOf(rows: Row[], subtitle: string): string {
  const aimed = rows.filter(({ aim, ratio }) => aim !== undefined && ratio !== undefined)
  const [width, height] = [NAMES + BARS + FIGURES, TOP + aimed.length * ROW + BOTTOM]
  const aimAt = NAMES + BARS / MOST
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>The server beside what does less</title>
<style>${STYLE}</style>
<text class="title" x="8" y="22">The server beside what does less</text>
<text class="small" x="8" y="42">${escaped(subtitle)}</text>
<text class="small" x="8" y="58">A bar as long as the line: what is aimed at. Grey: the server was kept waiting, and reaches it by processor time.</text>
<text class="small middle" x="${aimAt}" y="${TOP - 6}">aim</text>
${aimed.map((row, index) => lineOf(row, TOP + index * ROW)).join('\n')}
<line class="aim" x1="${aimAt}" x2="${aimAt}" y1="${TOP}" y2="${height - BOTTOM}"/>
</svg>
`
}

function lineOf(row: Row, y: number): string {
  const { name, against = '', aim, ratio, cpuRatio } = row
  if (aim === undefined || ratio === undefined) return ''
  const kind = { yes: 'yes', 'by CPU': 'cpu', no: 'no', '': '' }[isReached(row)]
  const bar = Math.min(MOST, timesTheAim(ratio, aim)) * (BARS / MOST)
  const byProcessor = kind === 'cpu' && cpuRatio !== undefined ? `, by CPU ${cpuRatio.toFixed(2)}` : ''
  return `<text class="end" x="${NAMES - 10}" y="${y + 17}">${escaped(name)}</text>
<text class="small end" x="${NAMES - 10}" y="${y + 31}">to ${escaped(against)}</text>
<rect class="${kind}" x="${NAMES}" y="${y + 8}" width="${bar.toFixed(1)}" height="${ROW - 18}" rx="2"/>
<text x="${NAMES + BARS + 10}" y="${y + 23}">${ratio.toFixed(2)} (${aimText(aim)}${byProcessor})</text>`
}

function timesTheAim(ratio: number, aim: Aim): number {
  return 'atLeast' in aim ? ratio / aim.atLeast : aim.atMost / ratio
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
