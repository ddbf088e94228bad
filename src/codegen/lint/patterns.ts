import { SpecError } from '../document.ts'

/**
 * The syntax that ECMA-262 with and without the flag `u`, RE2, Java and Python all accept. Each expression matches one
 * token at the beginning of the rest of a pattern.
 */
const TOKENS = [
  // An escaped syntax character, a common class, a control character, a code point below U+0100.
  /^\\(?:[\^$\\.*+?()[\]{}|/]|[dDwWsSbB]|[fnrt]|x[0-9A-Fa-f]{2})/,
  // An unnamed group, capturing or not. Anything else that begins with "(?" is look-around, a flag or a name.
  /^\((?:\?:|(?!\?))/,
  /^[)|^$.]/,
  // A quantifier, lazy or not. A second "+" would be possessive in Java and an error elsewhere.
  /^(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??(?![*+?{])/,
  // A character class. Java treats "[" and "&&" in it as operators; Python warns about "--", "||" and "~~".
  /^\[\^?(?:\\(?:[\^$\\.*+?()[\]{}|/-]|[dDwWsS]|[fnrt]|x[0-9A-Fa-f]{2})|(?!&&|--|\|\||~~)[^\\[\]\ud800-\udfff])+\]/,
  // Any other character of the Basic Multilingual Plane.
  /^[^\\^$.*+?()[\]{}|\ud800-\udfff]/,
]
/** RE2 rejects more repetitions; nested ones multiply. */
const MOST_REPEATS = 1000

/**
 * Checks that clients in other languages can compile a pattern.
 *
 * @throws SpecError naming the pattern and the first part that is not portable
 */
export function checkExpression(pattern: string, where: string): void {
  const refuse = (part: string) =>
    new SpecError(
      `${where}: pattern ${pattern} is not portable at "${part}": ECMA-262 with and without "u", RE2, Java and ` +
        'Python must all accept it',
    )
  // The number of repetitions of the most repeated part of each open group, and of the previous part.
  const groups = [1]
  let last = 1
  for (let at = 0; at < pattern.length; ) {
    const rest = pattern.slice(at)
    const token = TOKENS.map((expression) => expression.exec(rest)?.[0]).find((found) => found !== undefined)
    if (token === undefined) throw refuse(rest.slice(0, 20))
    if (token.startsWith('(')) groups.push(1)
    const count = /^\{(\d+)(?:,(\d*))?/.exec(token)
    if (token === ')') last = groups.pop() ?? 1
    else
      last = count
        ? last * Math.max(Number(count[1]), Number(count[2] ?? 0))
        : /^[*+?]/.test(token)
          ? last
          : 1
    if (last > MOST_REPEATS) throw refuse(token)
    groups.push(Math.max(groups.pop() ?? 1, last))
    at += token.length
  }
  for (const flags of ['', 'u']) if (!compiles(pattern, flags)) throw refuse(pattern)
}

function compiles(pattern: string, flags: string): boolean {
  try {
    return new RegExp(pattern, flags) !== null
  } catch {
    return false
  }
}
