import { boundedMemoize } from './memoize.ts'

/**
 * Returns a function that replaces single characters of a text. Where most of a long text is replaced by a few characters each,
 * `String.replace` takes longer: it prepares a match and calls a function for each character.
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
