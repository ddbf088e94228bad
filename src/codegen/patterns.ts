import { SpecError } from './document.ts'

/**
 * What a pattern may consist of: the syntax that ECMA-262 with and without the flag `u`, RE2, Java and Python all accept.
 * Each matches one token at the beginning of the rest.
 */
const TOKENS = [
  // An escaped syntax character, a class that all know, a control character, a code point below U+0100.
  /^\\(?:[\^$\\.*+?()[\]{}|/]|[dDwWsSbB]|[fnrt]|x[0-9A-Fa-f]{2})/,
  // A group without a name, capturing or not. What else begins with "(?" is look-around, a flag or a name.
  /^\((?:\?:|(?!\?))/,
  /^[)|^$.]/,
  // A count, lazy or not. A second "+" would be possessive in Java and an error elsewhere.
  /^(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??(?![*+?{])/,
  // A set. Java reads "[" and "&&" within it as operators; Python warns of "--", "||" and "~~".
  /^\[\^?(?:\\(?:[\^$\\.*+?()[\]{}|/-]|[dDwWsS]|[fnrt]|x[0-9A-Fa-f]{2})|(?!&&|--|\|\||~~)[^\\[\]\ud800-\udfff])+\]/,
  // Any other character of the Basic Multilingual Plane.
  /^[^\\^$.*+?()[\]{}|\ud800-\udfff]/,
]
/** RE2 refuses what would repeat a part more often, counts within counts multiplied. */
const MOST_REPEATS = 1000

/**
 * Checks that clients in other languages can compile a pattern.
 *
 * @throws SpecError naming the pattern and the first part that is not portable
 */
export function checkPattern(pattern: string, where: string): void {
  const refuse = (part: string) =>
    new SpecError(
      `${where}: pattern ${pattern} is not portable at "${part}": ECMA-262 with and without "u", RE2, Java and ` +
        'Python must all accept it',
    )
  // How often the most repeated part of each open group is repeated, and of the last part.
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
