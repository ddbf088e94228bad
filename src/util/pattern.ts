/**
 * Returns a function that tests whether a pattern matches a whole text. `*` matches any number of characters, including none
 * and `/`; everything else is compared exactly, code point by code point. Both must be well-formed Unicode, or a `*` could
 * match half of a surrogate pair.
 *
 * Never backtracks: the first place where a part occurs leaves the most room for the parts after it.
 */
export function patternMatcher(pattern: string): (text: string) => boolean {
  const [head = '', ...parts] = pattern.split('*')
  const tail = parts.pop()
  if (tail === undefined) return (text) => text === pattern
  // Neighboring asterisks have nothing between them.
  const middle = parts.filter((part) => part !== '')
  return (text) => {
    const end = text.length - tail.length
    let from = head.length
    if (from > end || !text.startsWith(head) || !text.endsWith(tail)) return false
    for (const part of middle) {
      const found = text.indexOf(part, from)
      if (found === -1 || found + part.length > end) return false
      from = found + part.length
    }
    return true
  }
}

/** Returns whether a pattern matches a whole text, as `patternMatcher`. */
export function matchesPattern(pattern: string, text: string): boolean {
  return patternMatcher(pattern)(text)
}
