import { scopes } from '../../generated/operations.ts'

/** Expiry choices in days, besides a date and never. */
export const EXPIRY_DAYS = [30, 90, 365]
const DAY = 24 * 3600 * 1000
const MAX_NAME = 100

/** The form for a new token as filled in, with error messages by field. */
export interface TokenForm {
  name: string
  repoScope: boolean
  /** A number of days, `date` or `none`. */
  expiry: string
  date: string
  errors: { name?: string; date?: string; expiry?: string }
}

export const EMPTY_FORM: TokenForm = { name: '', repoScope: true, expiry: '90', date: '', errors: {} }

/** Validates the form. `expiresAt` is in milliseconds since the epoch; null means never. */
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
  if (form.name === '') form.errors.name = 'Enter a name.'
  else if ([...form.name].length > MAX_NAME) form.errors.name = `Use at most ${MAX_NAME} characters.`
  else if (/[\p{Cc}\p{Cs}]/u.test(form.name)) form.errors.name = 'A name must not contain control characters.'
  return { form, expiresAt: readExpiry(form, now) }
}

function readExpiry(form: TokenForm, now: number): number | null {
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
