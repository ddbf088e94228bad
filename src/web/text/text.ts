import { characterReplacer, HIDDEN, inLines } from '../../util/replace-characters.ts'
import { truncate } from '../../util/truncate.ts'
import { ageInWords, exactTime, timeInWords } from '../assets/ages.js'
import { type Html, html } from './html.ts'

const withSymbols = characterReplacer(HIDDEN, symbolOf)
const visibleLines = characterReplacer(HIDDEN, inLines(symbolOf))

/**
 * Returns text with visible symbols for control and formatting characters, and in quotes if it is
 * nothing but spaces: for attributes and sentences.
 */
export function visibleText(text: string): string {
  const visible = withSymbols(text)
  return isBlank(visible) ? `"${visible}"` : visible
}

/**
 * Renders text from outside. No character is invisible or affects the direction of other text, and
 * text of nothing but spaces is shown in quotes, which are not copied, and counted for screen readers.
 */
export function shownText(text: string): Html {
  const visible = withSymbols(text)
  if (!isBlank(visible)) return html`<bdi>${visible}</bdi>`
  const spaces = visible.length === 1 ? '1 space' : `${visible.length} spaces`
  return html`<bdi class="blank" role="img" aria-label="${spaces}">${visible}</bdi>`
}

function isBlank(visible: string): boolean {
  return visible !== '' && visible.trim() === ''
}

/**
 * Width of a name that fits everywhere, and of its end that stays visible where it does not, in small
 * letters. The stylesheet has room for both, and for the first three characters.
 */
const SHORT_NAME = 12
const NAME_END = 6
/** Characters of the end, also where they are wide. */
const LEAST_END = 3
/** Code units of a name whose last characters are looked for. A character has a bounded number. */
const END_UNITS = 80
/** Created for the first name that needs it, since that takes 15 ms. */
let segmenter: Intl.Segmenter | undefined

/**
 * Renders a name from outside in one line. Where it does not fit, the stylesheet leaves out its
 * middle: the text is the whole name.
 */
export function shownName(name: string): Html {
  if (isShort(name)) return shownText(name)
  const text = withSymbols(name)
  if (isBlank(text)) return shownText(name)
  return html`<bdi class="cut" title="${text}"><span data-end="${endOf(text)}">${text}</span></bdi>`
}

/** Renders the name of an owner or a repository, as `shownName`. It is ASCII: nothing affects it. */
export function shownOwnName(name: string): Html | string {
  return isShort(name) ? name : shownName(name)
}

function isShort(name: string): boolean {
  return name.length <= 2 * SHORT_NAME && widthOf(name) <= SHORT_NAME
}

/** Returns the last characters of a name. */
function endOf(text: string): string {
  const tail = text.slice(-NAME_END)
  // Mostly each unit is a character. To look for those takes longer than to render a name.
  if (/^[ -~]*$/.test(tail))
    return tail.slice(startOfEnd(tail.length, (index) => widthOf(tail, index, index + 1)))
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' })
  const characters = [...segmenter.segment(text.slice(-END_UNITS))].map(({ segment }) => segment)
  return characters.slice(startOfEnd(characters.length, (index) => widthOf(characters[index] ?? ''))).join('')
}

/** Returns the index of the first of the last characters. @param width of the character with an index */
function startOfEnd(length: number, width: (index: number) => number): number {
  let total = 0
  for (let start = length; start > 0; start--) {
    total += width(start - 1)
    if (total > NAME_END && length - start >= LEAST_END) return start
  }
  return 0
}

/** Returns about how wide text is, in small letters. By code units, since names are on every page. */
function widthOf(text: string, start = 0, end = text.length): number {
  let width = 0
  for (let index = start; index < end; index++) {
    const code = text.charCodeAt(index)
    // The second half of a pair is no character of its own.
    if (code < 0x1100) width += isWide(code) ? 1.5 : 1
    else if (code < 0xdc00 || code > 0xdfff) width += 2
  }
  return width
}

/** Whether it is a capital letter, @, %, m or w. */
function isWide(code: number): boolean {
  return (code >= 0x40 && code <= 0x5a) || code === 0x25 || code === 0x6d || code === 0x77
}

/** Renders a list in a sentence: `a, b and 4 more`. @param total with those that are left out */
export function enumerate(shown: readonly Html[], total = shown.length): Html {
  const more = total - shown.length
  return html`${shown.map((item, index) => html`${index > 0 ? ', ' : ''}${item}`)}${more > 0 ? ` and ${more} more` : ''}`
}

/** Renders text of several lines, as `shownText`. Place it where whitespace is kept. */
export function shownLines(text: string): Html {
  return html`<div dir="auto" class="lines">${visibleLines(text.replaceAll('\r\n', '\n'))}</div>`
}

/** Renders text from outside. Only its beginning if it is long, until the user opens the rest. */
export function cutText(text: string, length: number): Html {
  const cut = truncate(text, length)
  if (cut === text) return shownText(text)
  const start = cut.slice(0, -1)
  return html`<details class="long"><summary>${shownText(start)}<span aria-hidden="true">…</span>
  <span class="more">Show all</span></summary>${shownText(text.slice(start.length))}</details>`
}

/** Returns a picture of a control character, or the number of any other: `␀`, `[U+202E]`. */
function symbolOf(character: string): string {
  const code = character.codePointAt(0) ?? 0
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '\u2421'
  return `[U+${code.toString(16).toUpperCase().padStart(4, '0')}]`
}

/**
 * Renders how long ago something happened, with the exact time in `datetime`. The script of the pages
 * keeps it up to date, and shows the exact time.
 *
 * @param iso ISO 8601, UTC
 * @param now milliseconds since the epoch
 */
export function formatAge(iso: string, now = Date.now()): Html {
  const text = ageInWords((now - Date.parse(iso)) / 1000) ?? exactTime(iso)
  // Git dates are whole seconds.
  return html`<time datetime="${iso.replace('.000', '')}" data-age>${text}</time>`
}

/** Renders for how long something has lasted, otherwise as `formatAge`. */
export function formatLasting(iso: string, now = Date.now()): Html {
  const text = timeInWords((now - Date.parse(iso)) / 1000)
  return html`<time datetime="${iso}" data-lasting data-age>${text}</time>`
}

/** Returns how long something took: `41 s`, `3 min 12 s`, `3 d 4 h`; empty below one second. */
export function formatElapsed(seconds: number): string {
  if (seconds < 60) return seconds < 1 ? '' : `${seconds} s`
  const [large, small, length, unit] = SPANS.find(([, , length]) => seconds >= length) ?? MINUTES
  const rest = Math.floor((seconds % length) / unit)
  return `${Math.floor(seconds / length)} ${large}${rest > 0 ? ` ${rest} ${small}` : ''}`
}

const MINUTES = ['min', 's', 60, 1] as const
const SPANS = [['d', 'h', 86_400, 3_600] as const, ['h', 'min', 3_600, 60] as const, MINUTES]

/** Returns a message of the store as a sentence. A full name at its beginning stays as it is. */
export function sentence(message: string): string {
  const isWord = /^[a-z]+(?:[\s,:;]|$)/.test(message)
  return `${isWord ? message.charAt(0).toUpperCase() + message.slice(1) : message}.`
}

/** Renders a button that copies an element's text; hidden without scripts. @param what it is */
export function copyButton(id: string, what: string): Html {
  return html`<button type="button" class="quiet" data-copy="${id}" aria-label="Copy ${what}" hidden>Copy</button>`
}

const HTTP = new Set(['http:', 'https:'])

/**
 * Renders a link. Checks the URL again: only http(s) becomes a link, whatever is stored. The header
 * Referrer-Policy keeps this site's addresses from others.
 */
export function targetLink(target: string | null, content: Html): Html {
  const url = target === null ? null : URL.parse(target)
  return url && HTTP.has(url.protocol) ? html`<a href="${url.href}" rel="nofollow">${content}</a>` : content
}
