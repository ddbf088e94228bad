import type { Session } from '../../../auth/session.ts'
import { allows } from '../../../domain/permissions.ts'
import type { OwnerView } from '../../../store/owners/groups.ts'
import type { Member } from '../../../store/owners/members.ts'
import type { ReservedName } from '../../../store/repositories/reserved-names.ts'
import { changePermission, givePermission, refusedForms } from '../../forms/permission-forms.ts'
import { csrfField, time } from '../../layout/layout.ts'
import { type Html, html } from '../../text/html.ts'

/** What the page of an owner shows its members besides repositories. */
export interface MembersView {
  session: Session
  owner: OwnerView
  /** Empty for a user. */
  members: readonly Member[]
  /** Empty for those who are no admins. */
  reserved: readonly ReservedName[]
  /** What was sent; empty at first. */
  form: URLSearchParams
  error: string | undefined
  /** For who has no account. */
  invitation: Html
}

type Forms = ReturnType<typeof refusedForms>

/** Returns the path of the forms of an owner: their pages would be names of repositories. */
export function ownerFormPath(owner: string, form: 'members' | 'names'): string {
  return `/settings/owners/${owner}/${form}`
}

/** Renders the members of a group and, for its admins, forms that change them. */
export function membersView(view: MembersView): Html {
  const { owner, members, reserved } = view
  const { row, add } = refusedForms(
    view,
    members.map(({ user }) => user),
  )
  return html`${
    owner.isGroup
      ? html`<section aria-labelledby="members">
  <h2 id="members">Members</h2>
  ${
    members.length === 0
      ? html`<p class="empty">${owner.name} has no members${isAdmin(view) ? ' yet. Add the first one below' : ''}.</p>`
      : html`<div class="scroll" tabindex="0" role="group" aria-labelledby="members"><table>
    <thead><tr><th scope="col">User</th><th scope="col">Access to all repositories</th>${isAdmin(view) ? html`<th scope="col"><span class="sr">Actions</span></th>` : ''}</tr></thead>
    <tbody>${members.map((member) => memberRow(view, member, row))}</tbody>
  </table></div>`
  }
</section>
${isAdmin(view) ? addForm(view, add) : ''}`
      : ''
  }
${reserved.length > 0 ? reservedNames(view) : ''}`
}

function isAdmin({ owner }: MembersView): boolean {
  return allows(owner.permission, 'admin')
}

function formsOf({ session, owner }: MembersView) {
  return { session, action: ownerFormPath(owner.name, 'members'), admin: 'settings and members too' }
}

function memberRow(view: MembersView, { user, permission, lockedAt }: Member, refused: Forms['row']): Html {
  return html`<tr>
  <th scope="row">${user} ${lockedAt === null ? '' : html`<span class="badge pending">locked</span>`}</th>
  <td data-column="Access">${permission}</td>
  ${isAdmin(view) ? html`<td class="action">${changePermission(formsOf(view), user, permission, refused)}</td>` : ''}
</tr>`
}

function addForm(view: MembersView, add: Forms['add']): Html {
  return html`<section class="card" aria-labelledby="add">
  <h2 id="add">Add a member</h2>
  ${givePermission(formsOf(view), html`<button class="quiet" type="submit">Add member</button>`, add)}
  ${view.invitation}
</section>`
}

function reservedNames({ session, owner, reserved }: MembersView): Html {
  const row = ({ name, repository, isHidden, since }: ReservedName) => html`<tr>
  <th scope="row">${name}</th>
  <td data-column="Now">${repository ?? html`<span class="faint">${isHidden ? 'moved away' : 'deleted'}</span>`}</td>
  <td data-column="Since">${time(since)}</td>
  <td class="action"><form method="post" action="${ownerFormPath(owner.name, 'names')}">
    ${csrfField(session)}<input type="hidden" name="name" value="${name.split('/')[1]}">
    <button class="quiet" type="submit">Release<span class="sr"> ${name}</span></button>
  </form></td>
</tr>`
  return html`<section aria-labelledby="names">
  <h2 id="names">Reserved names</h2>
  <p class="hint">Repositories had these names. Clients that still use a name that is released may report to the repository that gets it.</p>
  <div class="scroll" tabindex="0" role="group" aria-labelledby="names"><table>
    <thead><tr><th scope="col">Name</th><th scope="col">Now</th><th scope="col">Since</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
    <tbody>${reserved.map(row)}</tbody>
  </table></div>
</section>`
}
