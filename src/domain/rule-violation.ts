/** A request that breaks a rule. Nothing was changed. The message is meant for the user. */
export class RuleViolation extends Error {
  override name = 'RuleViolation'
}
