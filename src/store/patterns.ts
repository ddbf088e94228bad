import { schemas } from '../../generated/schemas.ts'
import { RuleViolation } from './rule-violation.ts'

/** Maximum number of context patterns in one list. */
export const MAX_PATTERNS = 20

/** Checks a list of context patterns. @throws RuleViolation if there are too many, or as `checkPattern` */
export function checkPatterns(what: string, patterns: readonly string[]): void {
  if (patterns.length > MAX_PATTERNS)
    throw new RuleViolation(`${patterns.length} ${what}s; at most ${MAX_PATTERNS} are allowed`)
  for (const pattern of patterns) checkPattern(what, pattern, schemas.ContextPattern)
}

/** Checks a context or branch pattern, counted in code points. @throws RuleViolation if it is invalid */
export function checkPattern(what: string, pattern: string, { maxLength }: { maxLength: number }): void {
  const length = [...pattern].length
  if (length === 0) throw new RuleViolation(`the ${what} is empty`)
  if (length > maxLength)
    throw new RuleViolation(`the ${what} is ${length} characters long; at most ${maxLength} are allowed`)
  if (!pattern.isWellFormed() || pattern.includes('\0'))
    throw new RuleViolation(`the ${what} must not contain U+0000 or a lone surrogate`)
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
