/** What was asked for breaks a rule; the message says which, for the one who asked. Nothing was changed. */
export class RuleViolation extends Error {
  override name = 'RuleViolation'
}
