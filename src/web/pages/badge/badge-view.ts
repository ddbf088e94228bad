import { COMBINED, type CombinedState, type StatusState } from '../../../domain/states.ts'
import { truncate } from '../../../util/truncate.ts'
import { type Html, html } from '../../text/html.ts'
import { visibleText } from '../../text/text.ts'

/** Messages that are no state. */
type Note = 'no status' | 'unknown' | 'unavailable'
export type Message = StatusState | Note

/** Maximum number of code points of a label. */
const LABEL_LENGTH = 40

/** Colors on which white text is readable, on light and dark pages. */
const COLORS: Record<CombinedState | Note, string> = {
  success: '#1a7540',
  pending: '#8a5a00',
  failure: '#b3261e',
  'no status': '#59636b',
  unknown: '#59636b',
  unavailable: '#59636b',
}

/** Renders a badge as SVG. */
export function badgeView(label: string, message: Message): Html {
  // XML excludes two characters.
  const full = visibleText(label).replace(/[\ufffe\uffff]/g, '\ufffd')
  const shownLabel = truncate(full, LABEL_LENGTH)
  const [left, right] = [widthOf(shownLabel), widthOf(message)]
  const text = (content: string, x: number, width: number) =>
    html`<text x="${x}" y="14" textLength="${width - 12}" lengthAdjust="spacingAndGlyphs" direction="ltr" unicode-bidi="isolate">${content}</text>`
  return html`<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" viewBox="0 0 ${left + right} 20" role="img" aria-label="${full}: ${message}">
<title>${full}: ${message}</title>
<clipPath id="r"><rect width="${left + right}" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="${left}" height="20" fill="#3b4345"/><rect x="${left}" width="${right}" height="20" fill="${COLORS[isState(message) ? COMBINED[message] : message]}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">${text(shownLabel, 6, left)}${text(message, left + 6, right)}</g>
</svg>
`
}

function isState(message: Message): message is StatusState {
  return message in COMBINED
}

/** Returns the approximate width of a text with margins. The text is fitted to it in any font. */
function widthOf(text: string): number {
  let width = 12
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    width += code > 0x1100 ? 11 : /[ijltfr.,:;|!'/ ]/.test(character) ? 4.5 : 7
  }
  return Math.round(width)
}
