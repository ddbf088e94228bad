import { boundedMemoize } from './memoize.ts'

type Replacement = (character: string) => string

/**
 * Returns a function that replaces single characters of a text. Where most of a long text is
 * replaced by a few characters each, `String.replace` takes longer: it calls a function for each of
 * them.
 *
 * @param pattern matches one UTF-16 code unit; not global
 */
export function characterReplacer(pattern: RegExp, replacement: Replacement) {
  const replacementOf = boundedMemoize(0x10000, (code: number) => {
    const character = String.fromCharCode(code)
    return pattern.test(character) ? replacement(character) : null
  })
  return (text: string): string => {
    const first = text.search(pattern)
    if (first === -1) return text
    let result = ''
    let kept = 0
    for (let index = first; index < text.length; index++) {
      const replaced = replacementOf(text.charCodeAt(index))
      if (replaced === null) continue
      result += text.slice(kept, index) + replaced
      kept = index + 1
    }
    return result + text.slice(kept)
  }
}

/**
 * Characters that are invisible or change how other text is shown: control characters, the marks
 * that set the direction of text, separators of lines and paragraphs, spaces without width,
 * fillers, the soft hyphen and the invisible operators. Not joiners and selectors of variants,
 * which some languages and many emoji need, nor pairs of units, such as the tags in some flags.
 */
export const HIDDEN =
  /\u034f|[\p{Cc}\p{Bidi_Control}\u00ad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2028\u2029\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb]/u

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
