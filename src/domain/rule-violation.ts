import { Expected } from '../errors.ts'

/** A request that breaks a rule. Nothing was changed. The message is meant for the user. */
export class RuleViolation extends Expected {
  override readonly name: string = 'RuleViolation'
}

/** What was to be created exists. */
export class AlreadyExists extends RuleViolation {
  override readonly name = 'AlreadyExists'
}
