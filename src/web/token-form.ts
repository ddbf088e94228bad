import { scopes } from '../../generated/operations.ts'

/** Days after which a token can be made to expire, beside a date and never. */
export const EXPIRY_DAYS = [30, 90, 365]
const DAY = 24 * 3600 * 1000
const MAX_NAME = 100

/** The form for a new token as it was filled in, and what is wrong with it, by field. */
export interface TokenForm {
  name: string
  repoScope: boolean
  /** A number of days, `date` or `none`. */
  expiry: string
  date: string
  errors: { name?: string; date?: string; expiry?: string }
}

export const EMPTY_FORM: TokenForm = { name: '', repoScope: true, expiry: '90', date: '', errors: {} }

/** @returns the form with what is wrong in it, and when the token expires: milliseconds since the epoch, null: never */
export function readTokenForm(
  fields: URLSearchParams,
  now: number,
): { form: TokenForm; expiresAt: number | null } {
  const form: TokenForm = {
    name: (fields.get('name') ?? '').trim(),
    repoScope: fields.get('scope') === scopes.repo,
    expiry: fields.get('expiry') ?? '',
    date: fields.get('date') ?? '',
    errors: {},
  }
  if (form.name === '') form.errors.name = 'Give the token a name, so that you know it again.'
  else if ([...form.name].length > MAX_NAME) form.errors.name = `At most ${MAX_NAME} characters.`
  else if (/[\p{Cc}\p{Cs}]/u.test(form.name)) form.errors.name = 'A name holds no control characters.'
  return { form, expiresAt: readExpiry(form, now) }
}

function readExpiry(form: TokenForm, now: number): number | null {
  if (form.expiry === 'none') return null
  if (form.expiry === 'date') {
    const moment = /^\d{4}-\d{2}-\d{2}$/.test(form.date) ? Date.parse(`${form.date}T00:00:00Z`) : Number.NaN
    if (Number.isNaN(moment)) form.errors.date = 'Choose the day from which on the token is refused.'
    else if (moment <= now) form.errors.date = 'Choose a day in the future.'
    return moment
  }
  const days = EXPIRY_DAYS.find((choice) => String(choice) === form.expiry)
  if (days === undefined) form.errors.expiry = 'Choose when the token expires.'
  return now + (days ?? 0) * DAY
}
