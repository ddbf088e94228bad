import type { Session } from '../../auth/session.ts'
import { PERMISSIONS, type Permission } from '../../domain/permissions.ts'
import { Refusal } from '../../domain/refusal.ts'
import { csrfField } from '../layout/layout.ts'
import { type Html, html } from '../text/html.ts'
import { copyButton } from '../text/text.ts'
import type { FindUser } from './find-user.ts'
import { type Choice, choiceField, field, fieldError, options } from './form.ts'

/** What `PERMISSIONS` are called in a message about a user. */
export const MAY: Record<Permission, string> = {
  read: 'may read',
  write: 'may write to',
  admin: 'may administer',
}

/** The forms for what users may do there. */
interface PermissionForms {
  session: Session
  /** Where the forms are sent. */
  action: string
  /** What `admin` allows besides writing. */
  admin: string
}

/** Renders a form that gives a user a permission, as it was refused, or as it is at first. */
export function givePermission(forms: PermissionForms, button: Html, { form, error }: Refused): Html {
  return html`<form method="post" action="${forms.action}">
    ${csrfField(forms.session)}<input type="hidden" name="from" value="none">
    ${field(
      { name: 'user', label: 'User', hint: 'The name with which they sign in.', error },
      (attributes) =>
        html`<input ${attributes} value="${form.get('user') ?? ''}" required maxlength="100" autocomplete="off" spellcheck="false">`,
    )}
    ${choiceField({ name: 'access', label: 'Access' }, choices(forms), form.get('access') ?? 'write')}
    ${button}
  </form>`
}

/**
 * Renders what somebody has to do who has no account yet.
 *
 * @param link to the page where people sign in, in full
 * @param isOpen whether the first sign-in creates the account
 */
export function invitation(link: string, isOpen: boolean): Html {
  return html`<p class="hint">Who is new here ${isOpen ? 'signs in once with this link, and can be added then' : 'gets a password from an administrator, and signs in with this link'}:</p>
  <div class="copy"><code id="invite">${link}</code>${copyButton('invite', 'the link')}</div>`
}

/** Renders a form that changes or removes the permission of a user. @param sent the form that was refused */
export function changePermission(
  forms: PermissionForms,
  user: string,
  permission: Permission,
  sent?: Refused,
): Html {
  const refused = sent?.form.get('user') === user ? sent : undefined
  const attributes = refused && html` aria-invalid="true" aria-describedby="access-error" autofocus`
  return html`<form class="choose" method="post" action="${forms.action}">
    ${csrfField(forms.session)}<input type="hidden" name="user" value="${user}"><input type="hidden" name="from" value="${permission}">
    <select name="access" aria-label="Access of ${user}"${attributes ?? ''}>${options([...choices(forms), ['none', 'none: remove']], refused?.form.get('access') ?? permission)}</select>
    <button class="quiet" type="submit">Change<span class="sr"> access of ${user}</span></button>
  </form>${fieldError('access', refused?.error)}`
}

/** A form that was refused, and why. */
interface Refused {
  form: URLSearchParams
  error: string | undefined
}

/**
 * Tells which form was refused: the one in the row of a user, as long as there is one, or the one
 * that adds a user.
 */
export function refusedForms(
  sent: Refused,
  users: readonly (string | null)[],
): { row?: Refused; add: Refused } {
  const { form } = sent
  const isOfRow = (form.get('from') ?? 'none') !== 'none' && users.includes(form.get('user'))
  return isOfRow ? { row: sent, add: { form: new URLSearchParams(), error: undefined } } : { add: sent }
}

function choices({ admin }: PermissionForms): Choice[] {
  return [
    ['read', 'read'],
    ['write', 'write: report and push'],
    ['admin', `admin: ${admin}`],
  ]
}

/**
 * Reads such a form.
 *
 * @param by the id of the user who sends it
 * @returns the user, the permission or null for none, and what it was when the form was made
 * @throws Refusal as `FindUser`, or if no permission was chosen
 */
export async function readPermission(form: URLSearchParams, findUser: FindUser, by: number) {
  const user = await findUser(by, (form.get('user') ?? '').trim())
  const access = form.get('access')
  const permission = PERMISSIONS.find((permission) => permission === access) ?? null
  if (permission === null && access !== 'none') throw new Refusal('choose what is allowed')
  return { user, permission, expected: form.get('from') ?? '' }
}
