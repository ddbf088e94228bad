import { boundedMemoize } from './memoize.ts'

/**
 * Returns a function that replaces single characters of a text. Where most of a long text is replaced by a few characters each,
 * `String.replace` takes longer: it calls a function for each of them.
 *
 * @param pattern matches one UTF-16 code unit; not global
 */
export function characterReplacer(pattern: RegExp, replacement: (character: string) => string) {
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
 * Characters that are invisible or change how other text is shown: control characters, the marks that set the direction of
 * text, separators of lines and paragraphs, spaces without width, the soft hyphen and the invisible operators.
 */
export const HIDDEN = /[\p{Cc}\p{Bidi_Control}\u00ad\u2028\u2029\u200b\u2060-\u2064\ufeff]/u
/** The same, without the line breaks and tabs that a text of several lines consists of. */
export const HIDDEN_IN_LINES = /[^\P{Cc}\n\t]|[\p{Bidi_Control}\u00ad\u2028\u2029\u200b\u2060-\u2064\ufeff]/u

const REPLACEMENT = () => '\ufffd'

/** Replaces hidden characters, so that text from outside cannot look like other text. */
export const replaceHidden = characterReplacer(HIDDEN, REPLACEMENT)

/** Replaces hidden characters except line breaks and tabs. */
export const replaceHiddenInLines = characterReplacer(HIDDEN_IN_LINES, REPLACEMENT)
