import { characterReplacer } from './character-replacer.ts'

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
