import { scopes } from '../../../../generated/operations.ts'
import { boundExpiry } from '../../../auth/issue-token.ts'
import { checkPatterns } from '../../../domain/patterns.ts'
import { Refusal } from '../../../domain/refusal.ts'
import type { TokenLimits } from '../../../store/access/token-limits.ts'
import { linesOf } from '../../forms/form.ts'
import { sentence } from '../../text/text.ts'

/** Expiry choices in days, besides a date and as late as possible. */
const EXPIRY_DAYS = [30, 90, 365]
const DAY = 24 * 3600 * 1000
const MAX_NAME = 100

/** The form for a new token as filled in, with error messages by field. */
export interface TokenForm {
  name: string
  repoScope: boolean
  /** Whether the token may push. */
  push: boolean
  /** Ids of the repositories to which it is limited; none: not limited. */
  repositories: ReadonlySet<number>
  /** Contexts chosen from those that reported. */
  chosenContexts: readonly string[]
  /** Further context patterns, one per line. With none at all, it is not limited. */
  contexts: string
  /** A number of days, `date` or `none`. */
  expiry: string
  date: string
  errors: { name?: string; date?: string; expiry?: string; repositories?: string; contexts?: string }
}

export const EMPTY_FORM: TokenForm = {
  name: '',
  repoScope: true,
  push: true,
  repositories: new Set(),
  chosenContexts: [],
  contexts: '',
  expiry: '90',
  date: '',
  errors: {},
}

/** Returns the expiry choices in days that a maximum in milliseconds allows. */
export function expiryDays(maxLifetime: number | null): number[] {
  return EXPIRY_DAYS.filter((days) => maxLifetime === null || days * DAY <= maxLifetime)
}

/**
 * Validates the form. `expiresAt` is in milliseconds since the epoch; null means never.
 *
 * @param choices the repositories that the form offers
 * @param maxLifetime see `boundExpiry`
 */
export function readTokenForm(
  fields: URLSearchParams,
  now: number,
  choices: readonly { id: number }[],
  maxLifetime: number | null,
): { form: TokenForm; expiresAt: number | null; limits: TokenLimits } {
  const form: TokenForm = {
    name: (fields.get('name') ?? '').trim(),
    repoScope: fields.get('scope') === scopes.repo,
    push: fields.has('push'),
    repositories: new Set(fields.getAll('repository').map(Number)),
    chosenContexts: fields.getAll('context').filter(Boolean),
    contexts: fields.get('contexts') ?? '',
    expiry: fields.get('expiry') ?? '',
    date: fields.get('date') ?? '',
    errors: {},
  }
  if (form.name === '') form.errors.name = 'Enter a name.'
  else if ([...form.name].length > MAX_NAME) form.errors.name = `Use at most ${MAX_NAME} characters.`
  else if (/[\p{Cc}\p{Cs}]/u.test(form.name)) form.errors.name = 'A name must not contain control characters.'
  return { form, expiresAt: readExpiry(form, now, maxLifetime), limits: limitsFromForm(form, choices) }
}

function limitsFromForm(form: TokenForm, choices: readonly { id: number }[]): TokenLimits {
  const { repositories, push, errors } = form
  const offered = new Set(choices.map(({ id }) => id))
  // Without those that are gone, a list could become empty, which would mean all.
  if (![...repositories].every((id) => offered.has(id)))
    errors.repositories = 'You can no longer write to a repository that you chose. Choose again.'
  const contexts = [...form.chosenContexts, ...linesOf(form.contexts)]
  try {
    checkPatterns('context pattern', contexts)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    errors.contexts = sentence(error.message)
  }
  return {
    repositories: repositories.size > 0 ? [...repositories] : null,
    contexts: contexts.length > 0 ? contexts : null,
    push,
  }
}

function readExpiry(form: TokenForm, now: number, maxLifetime: number | null): number | null {
  const expiresAt = chosenExpiry(form, now)
  if (form.errors.date || form.errors.expiry) return null
  try {
    return boundExpiry(expiresAt, maxLifetime, now)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    form.errors[form.expiry === 'date' ? 'date' : 'expiry'] = sentence(error.message)
    return null
  }
}

function chosenExpiry(form: TokenForm, now: number): number | null {
  if (form.expiry === 'none') return null
  if (form.expiry === 'date') {
    const moment = Date.parse(`${form.date}T00:00:00Z`)
    // Date.parse reads February 31 as March 3.
    const isDate = !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(`${form.date}T`)
    if (!isDate) form.errors.date = 'Choose the expiry date.'
    else if (moment <= now) form.errors.date = 'Choose a date in the future.'
    return moment
  }
  const days = EXPIRY_DAYS.find((choice) => String(choice) === form.expiry)
  if (days === undefined) form.errors.expiry = 'Choose when the token expires.'
  return now + (days ?? 0) * DAY
}
