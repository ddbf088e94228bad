/**
 * Characters that are invisible or change how other text is shown: control characters, the marks that set the direction of
 * text, separators of lines and paragraphs, spaces without width, the soft hyphen and the invisible operators.
 */
const HIDDEN = /[\p{Cc}\p{Bidi_Control}\u00ad\u2028\u2029\u200b\u2060-\u2064\ufeff]/gu
/** The same, without the line breaks and tabs that a text of several lines consists of. */
const HIDDEN_IN_LINES = /[^\P{Cc}\n\t]|[\p{Bidi_Control}\u00ad\u2028\u2029\u200b\u2060-\u2064\ufeff]/gu

const REPLACEMENT = () => '\ufffd'

/** Replaces hidden characters, so that text from outside cannot look like other text. */
export function replaceHidden(
  text: string,
  replacement: (character: string) => string = REPLACEMENT,
): string {
  return text.replace(HIDDEN, replacement)
}

/** Replaces hidden characters except line breaks and tabs. */
export function replaceHiddenInLines(
  text: string,
  replacement: (character: string) => string = REPLACEMENT,
): string {
  return text.replace(HIDDEN_IN_LINES, replacement)
}
