import type { Session } from '../../../auth/session.ts'
import type { NewRepository } from '../../../store/repositories/repositories.ts'
import { choiceField, field } from '../../forms/form.ts'
import { csrfField } from '../../layout/layout.ts'
import { type Html, html } from '../../text/html.ts'

/** The form for a new repository as filled in, and what is wrong with it. */
export interface NewRepositoryForm extends NewRepository {
  error?: string
}

interface NewRepositoryView {
  session: Session
  path: string
  /** The names of those whose repositories the user administers. */
  owners: readonly string[]
  form: NewRepositoryForm
}

export function newRepositoryView({ session, path, owners, form }: NewRepositoryView): Html {
  const { owner, name, visibility, objectFormat, error } = form
  return html`<h1>New repository</h1>
<form class="card" method="post" action="${path}">
  ${csrfField(session)}
  ${choiceField(
    { name: 'owner', label: 'Owner', hint: 'You, or a group that you administer.' },
    owners.map((name) => [name, name]),
    owner,
  )}
  ${field(
    { name: 'name', label: 'Name', error },
    (attributes) =>
      html`<input ${attributes} value="${name}" required maxlength="100" autocomplete="off" spellcheck="false">`,
  )}
  ${choiceField(
    { name: 'visibility', label: 'Visibility' },
    [
      ['public', 'public: everyone can see it'],
      ['private', 'private: only its owner and users with access can see it'],
    ],
    visibility,
  )}
  ${choiceField(
    {
      name: 'object-format',
      label: 'Object format',
      hint: 'Of the ids of commits. SHA-256 needs git 2.42 or newer everywhere, and cannot be changed.',
    },
    [
      ['sha1', 'SHA-1'],
      ['sha256', 'SHA-256'],
    ],
    objectFormat,
  )}
  <button type="submit">Create repository</button>
</form>`
}
