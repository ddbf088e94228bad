import type { Session } from '../../auth/session.ts'
import { PERMISSIONS, type Permission } from '../../domain/permissions.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { FindUser } from '../parts/find-user.ts'
import { type Html, html } from '../parts/html.ts'
import { csrfField } from '../parts/layout.ts'
import { type Choice, choiceField, field, options } from './form.ts'

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

/** Renders a form that gives a user a permission. @param form what was sent; empty at first */
export function givePermission(
  forms: PermissionForms,
  form: URLSearchParams,
  button: string,
  error: string | undefined,
): Html {
  return html`<form method="post" action="${forms.action}">
    ${csrfField(forms.session)}<input type="hidden" name="from" value="none">
    ${field(
      { name: 'user', label: 'User', hint: 'The name with which they sign in.', error },
      (attributes) =>
        html`<input ${attributes} value="${form.get('user') ?? ''}" required maxlength="100" autocomplete="off" spellcheck="false">`,
    )}
    ${choiceField({ name: 'access', label: 'Access' }, choices(forms), form.get('access') ?? 'write')}
    <button type="submit">${button}</button>
  </form>`
}

/** Renders a form that changes or removes the permission of a user. */
export function changePermission(forms: PermissionForms, user: string, permission: Permission): Html {
  return html`<form class="choose" method="post" action="${forms.action}">
    ${csrfField(forms.session)}<input type="hidden" name="user" value="${user}"><input type="hidden" name="from" value="${permission}">
    <select name="access" aria-label="Access of ${user}">${options([...choices(forms), ['none', 'none: remove']], permission)}</select>
    <button class="quiet" type="submit">Change<span class="sr"> access of ${user}</span></button>
  </form>`
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
