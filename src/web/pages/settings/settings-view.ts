import type { Session } from '../../../auth/session.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { changeForm, choiceField, field } from '../../forms/form.ts'
import { settingsHead, settingsPath } from '../../parts/administration.ts'
import { type Html, html } from '../../parts/html.ts'
import { visibleText } from '../../parts/text.ts'

/** What is wrong with the forms of the page, by what they change. */
export type SettingsErrors = { [Change in 'visibility' | 'branch' | 'name' | 'delete']?: string | undefined }

interface SettingsView {
  session: Session
  repository: ReadableRepository
  /** null if git cannot read the repository. */
  branches: readonly string[] | null
  /** null if HEAD names none. */
  defaultBranch: string | null
  /** The names of those whose repositories the user administers. */
  owners: readonly string[]
  /** What was sent; empty at first. */
  form: URLSearchParams
  errors: SettingsErrors
}

export function settingsView(view: SettingsView): Html {
  const { session, repository, owners, form, errors } = view
  const { owner, name, visibility } = repository
  const action = settingsPath(repository)
  return html`${settingsHead(repository, '')}
<section class="card" aria-labelledby="visibility-title">
  <h2 id="visibility-title">Visibility</h2>
  ${changeForm(
    session,
    action,
    'visibility',
    html`${from(visibility)}${choiceField(
      { name: 'visibility', label: 'Who can see it', error: errors.visibility },
      [
        ['public', 'public: everyone'],
        ['private', 'private: its owner and users with access'],
      ],
      form.get('visibility') ?? visibility,
    )}
    <button type="submit">Change visibility</button>`,
  )}
</section>
<section class="card" aria-labelledby="branch-title">
  <h2 id="branch-title">Default branch</h2>
  ${view.branches === null ? html`<p class="empty">The branches cannot be read at the moment.</p>` : branchForm(view, view.branches)}
</section>
<section class="card" aria-labelledby="name-title">
  <h2 id="name-title">Name and owner</h2>
  ${changeForm(
    session,
    action,
    'name',
    html`${from(String(repository.id))}${choiceField(
      { name: 'owner', label: 'Owner', hint: 'You, or a group that you administer.' },
      [...new Set([owner, ...owners])].map((name) => [name, name]),
      form.get('owner') ?? owner,
    )}
    ${field(
      {
        name: 'name',
        label: 'Name',
        hint: 'Statuses, rules, access and tokens stay. Links, clones and CI jobs with the name before stop working; it stays reserved.',
        error: errors.name,
      },
      (attributes) =>
        html`<input ${attributes} value="${form.get('name') ?? name}" required maxlength="100" autocomplete="off" spellcheck="false">`,
    )}
    <button type="submit">Rename or move</button>`,
  )}
</section>
<section class="card" aria-labelledby="delete-title">
  <h2 id="delete-title">Delete this repository</h2>
  ${changeForm(
    session,
    action,
    'delete',
    html`${from(String(repository.id))}${field(
      {
        name: 'confirm',
        label: `Type ${owner}/${name}`,
        hint: 'Its commits, statuses and rules are deleted. This cannot be undone.',
        error: errors.delete,
      },
      (attributes) =>
        html`<input ${attributes} value="${form.get('confirm') ?? ''}" required autocomplete="off" spellcheck="false">`,
    )}
    <button class="danger" type="submit">Delete repository</button>`,
  )}
</section>`
}

function branchForm(
  { session, repository, defaultBranch, form, errors }: SettingsView,
  branches: readonly string[],
): Html {
  const current = defaultBranch === null || branches.includes(defaultBranch) ? [] : [defaultBranch]
  return changeForm(
    session,
    settingsPath(repository),
    'branch',
    html`${from(defaultBranch ?? '')}${choiceField(
      {
        name: 'branch',
        label: 'Branch',
        hint: 'Clones check it out, and pages show it first.',
        error: errors.branch,
      },
      [...current, ...branches].map((branch) => [branch, visibleText(branch)]),
      form.get('branch') ?? defaultBranch ?? '',
    )}
    <button type="submit">Change default branch</button>`,
  )
}

/** Renders the field with what a form changes, which may be another value when it is sent. */
function from(value: string): Html {
  return html`<input type="hidden" name="from" value="${value}">`
}
