import type { Status } from '../../index.ts'
import type { exitCodes } from '../exit-codes.ts'

type Outcome = keyof typeof exitCodes | 'interrupted'

/** The end of a landing, in one sentence. */
export class LandingEnd extends Error {
  override name = 'LandingEnd'
  readonly outcome: Outcome
  /** The failed statuses. */
  readonly decisive: readonly Status[]
  /** Address of the page of the commit that was checked. */
  readonly page: string | undefined

  constructor(outcome: Outcome, sentence: string, decisive: readonly Status[] = [], page?: string) {
    super(sentence)
    this.outcome = outcome
    this.decisive = decisive
    this.page = page
  }
}
