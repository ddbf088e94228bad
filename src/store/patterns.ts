import { RuleViolation } from './rule-violation.ts'

/** Most patterns of contexts in one list. */
const MAX_PATTERNS = 20
const MAX_PATTERN_LENGTH = 255

/** Checks a list of patterns of contexts. @throws RuleViolation if there are too many, or as `checkPattern` */
export function checkPatterns(what: string, patterns: readonly string[]): void {
  if (patterns.length > MAX_PATTERNS)
    throw new RuleViolation(`${patterns.length} ${what}s; at most ${MAX_PATTERNS} are allowed`)
  for (const pattern of patterns) checkPattern(what, pattern)
}

/** Checks a pattern of contexts or branches, counted in code points. @throws RuleViolation if it is invalid */
export function checkPattern(what: string, pattern: string): void {
  const length = [...pattern].length
  if (length === 0) throw new RuleViolation(`the ${what} is empty`)
  if (length > MAX_PATTERN_LENGTH)
    throw new RuleViolation(
      `the ${what} is ${length} characters long; at most ${MAX_PATTERN_LENGTH} are allowed`,
    )
  if (!pattern.isWellFormed() || pattern.includes('\0'))
    throw new RuleViolation(`the ${what} contains a character that no name can have`)
}

/** Returns the patterns in a stored JSON array; null if it is not one, or empty. */
export function readPatterns(text: string): string[] | null {
  try {
    const value: unknown = JSON.parse(text)
    if (!Array.isArray(value) || value.length === 0) return null
    return value.every((item: unknown) => typeof item === 'string') ? value : null
  } catch {
    return null
  }
}
