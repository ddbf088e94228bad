import { ExpectedError } from '../util/expected-errors.ts'

/** A refused request that the user can correct. Nothing was changed. The message is meant for the user. */
export class Refusal extends ExpectedError {
  override readonly name: string = 'Refusal'
}

/** What was to be created exists. */
export class AlreadyExists extends Refusal {
  override readonly name = 'AlreadyExists'
}

/**
 * Checks that what somebody changes is as the person has seen it.
 *
 * @param what its name in the message
 * @param expected default: anything
 * @throws Refusal
 */
export function checkUnchanged(what: string, current: string, expected = current): void {
  if (current !== expected)
    throw new Refusal(`${what} is "${current}" by now, which somebody else has set. Nothing was changed`)
}
