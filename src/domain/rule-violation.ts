import { Expected } from '../errors.ts'

/** A request that breaks a rule. Nothing was changed. The message is meant for the user. */
export class RuleViolation extends Expected {
  override readonly name: string = 'RuleViolation'
}

/** What was to be created exists. */
export class AlreadyExists extends RuleViolation {
  override readonly name = 'AlreadyExists'
}

/**
 * Checks that what somebody changes is as the person has seen it.
 *
 * @param what its name in the message
 * @param expected default: anything
 * @throws RuleViolation
 */
export function checkExpected(what: string, current: string, expected = current): void {
  if (current !== expected)
    throw new RuleViolation(
      `${what} is "${current}" by now, which somebody else has set. Nothing was changed`,
    )
}
