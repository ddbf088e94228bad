import { SpecError } from '../document.ts'

/**
 * The syntax that ECMA-262 with and without the flag `u`, RE2, Java and Python all accept. Each
 * expression matches one token.
 */
const TOKENS = [
  // An escaped syntax character, a common class, a control character, a code point below U+0100.
  /\\(?:[\^$\\.*+?()[\]{}|/]|[dDwWsSbB]|[fnrt]|x[0-9A-Fa-f]{2})/,
  // An unnamed group, capturing or not. Anything else that begins with "(?" is look-around, a flag
  // or a name.
  /\((?:\?:|(?!\?))/,
  /[)|^$.]/,
  // A quantifier, lazy or not. RE2 rejects more repetitions, also nested ones whose product is
  // larger, which is not checked. A second "+" would be possessive in Java and an error elsewhere.
  /(?:[*+?]|\{(?:1000|\d{1,3})(?:,(?:1000|\d{0,3}))?\})\??(?![*+?{])/,
  // A character class. Java treats "[" and "&&" in it as operators; Python warns about "--", "||"
  // and "~~".
  /\[\^?(?:\\(?:[\^$\\.*+?()[\]{}|/-]|[dDwWsS]|[fnrt]|x[0-9A-Fa-f]{2})|(?!&&|--|\|\||~~)[^\\[\]\ud800-\udfff])+\]/,
  // Any other character of the Basic Multilingual Plane.
  /[^\\^$.*+?()[\]{}|\ud800-\udfff]/,
]
const PORTABLE = new RegExp(`^(?:${TOKENS.map(({ source }) => source).join('|')})*`)

/**
 * Checks that clients in other languages can compile a pattern.
 *
 * @throws SpecError naming the first part that is not portable
 */
export function checkExpression(pattern: string, where: string): void {
  const [portable = ''] = PORTABLE.exec(pattern) ?? []
  if (portable === pattern && ['', 'u'].every((flags) => compiles(pattern, flags))) return
  const part = pattern.slice(portable.length, portable.length + 20) || pattern
  throw new SpecError(
    `${where}: pattern ${pattern} is not portable at "${part}": ECMA-262 with and without "u", RE2, Java and ` +
      'Python must all accept it',
  )
}

function compiles(pattern: string, flags: string): boolean {
  try {
    return new RegExp(pattern, flags) !== null
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}
