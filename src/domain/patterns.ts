import { schemas } from '../../generated/schemas.ts'
import { Refusal } from './refusal.ts'

/**
 * Returns a function that tests whether a pattern matches a whole text. `*` matches any number of
 * characters, including none and `/`; everything else is compared exactly, code point by code
 * point. Both must be well-formed Unicode, or a `*` could match half of a surrogate pair.
 *
 * Never backtracks: the first place where a part occurs leaves the most room for the parts after
 * it.
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
      const start = text.indexOf(part, from)
      if (start === -1 || start + part.length > end) return false
      from = start + part.length
    }
    return true
  }
}

/** Returns whether a pattern matches a whole text, as `patternMatcher`. */
export function matchesPattern(pattern: string, text: string): boolean {
  return patternMatcher(pattern)(text)
}

/** Maximum number of context patterns in one list. */
export const MAX_PATTERNS = 20

/** Checks a list of context patterns. @throws Refusal for too many or an invalid one */
export function checkPatterns(what: string, patterns: readonly string[]): void {
  if (patterns.length > MAX_PATTERNS)
    throw new Refusal(`${patterns.length} ${what}s; at most ${MAX_PATTERNS} are allowed`)
  for (const pattern of patterns) checkPattern(what, pattern, schemas.ContextPattern)
}

/** Checks a pattern, counted in code points. @throws Refusal if it is invalid */
export function checkPattern(what: string, pattern: string, { maxLength }: { maxLength: number }): void {
  const length = [...pattern].length
  if (length === 0) throw new Refusal(`the ${what} is empty`)
  if (length > maxLength)
    throw new Refusal(`the ${what} is ${length} characters long; at most ${maxLength} are allowed`)
  if (!pattern.isWellFormed() || pattern.includes('\0'))
    throw new Refusal(`the ${what} must not contain U+0000 or a lone surrogate`)
}

/** Returns the patterns in a stored JSON array; null if it is not one, or empty. */
export function readPatterns(text: string): string[] | null {
  try {
    const value: unknown = JSON.parse(text)
    if (!Array.isArray(value) || value.length === 0) return null
    return value.every((item: unknown) => typeof item === 'string') ? value : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
