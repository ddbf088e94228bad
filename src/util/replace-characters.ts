import { boundedMemoize } from './memoize.ts'

type Replacement = (character: string) => string

/**
 * Returns a function that replaces single characters of a text. Where most of a long text is
 * replaced by a few characters each, `String.replace` takes longer: it calls a function for each of
 * them.
 *
 * @param pattern matches one character; not global
 */
export function characterReplacer(pattern: RegExp, replacement: Replacement) {
  const replacementOf = boundedMemoize(0x10000, (code: number) => {
    const character = String.fromCodePoint(code)
    return pattern.test(character) ? replacement(character) : null
  })
  return (text: string): string => {
    const first = text.search(pattern)
    if (first === -1) return text
    let result = ''
    let restStart = 0
    for (let index = first; index < text.length; ) {
      const code = text.codePointAt(index) ?? 0
      const replaced = replacementOf(code)
      const end = index + (code > 0xffff ? 2 : 1)
      if (replaced !== null) {
        result += text.slice(restStart, index) + replaced
        restStart = end
      }
      index = end
    }
    return result + text.slice(restStart)
  }
}

/**
 * Characters that are invisible or change how other text is shown: control characters, what Unicode
 * lets programs leave out (UAX #44, Default_Ignorable_Code_Point), such as the marks that set the
 * direction of text, spaces without width, fillers and tags, and separators of lines and
 * paragraphs. Not joiners and selectors of variants, which some languages and many emoji need. They
 * are excluded behind the character: in front of it, that takes twice as long for each text.
 */
export const HIDDEN =
  /[\p{Cc}\p{Default_Ignorable_Code_Point}\u2028\u2029\u2800\ufff9-\ufffb](?<!\u200c|\u200d|[\ufe00-\ufe0f])/u

/**
 * Returns a replacement that keeps the line breaks and tabs of which a text of several lines
 * consists.
 */
export function inLines(replacement: Replacement): Replacement {
  return (character) => (character === '\n' || character === '\t' ? character : replacement(character))
}

const REPLACEMENT = () => '\ufffd'

/** Replaces hidden characters, so that text from outside cannot look like other text. */
export const replaceHidden = characterReplacer(HIDDEN, REPLACEMENT)

/** Replaces hidden characters except line breaks and tabs. */
export const replaceHiddenInLines = characterReplacer(HIDDEN, inLines(REPLACEMENT))
