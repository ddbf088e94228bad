import type { Session } from '../../../auth/session.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { changeForm, choiceField, field, fieldError } from '../../forms/form.ts'
import { settingsHead } from '../../layout/repository-head.ts'
import { type Html, html } from '../../text/html.ts'
import { settingsPath } from '../../text/repository-paths.ts'
import { visibleText } from '../../text/text.ts'

/** What is wrong with the forms of the page, by what they change. */
export type SettingsErrors = {
  [Change in 'visibility' | 'branch' | 'follow' | 'name' | 'delete']?: string | undefined
}

interface SettingsView {
  session: Session
  repository: ReadableRepository
  /** null if git cannot read the repository. */
  branches: readonly string[] | null
  /** null if HEAD names none. */
  defaultBranch: string | null
  /** Whether HEAD leaves a branch that a push deletes; null if that is not the server's to say. */
  follows: boolean | null
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
    <button class="quiet" type="submit">Change visibility</button>`,
  )}
</section>
<section class="card" aria-labelledby="branch-title">
  <h2 id="branch-title">Default branch</h2>
  ${view.branches === null ? html`<p class="empty">The branches cannot be read at the moment.</p>` : branchForm(view, view.branches)}
  ${view.follows === null ? fieldError('follow', errors.follow) : followForm(view, view.follows)}
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
        hint: 'Statuses, rules, access and tokens stay. Links, clones and CI jobs with the old name stop working; it stays reserved.',
        error: errors.name,
      },
      (attributes) =>
        html`<input ${attributes} value="${form.get('name') ?? name}" required maxlength="100" autocomplete="off" spellcheck="false">`,
    )}
    <button class="quiet" type="submit">Rename or move</button>`,
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
    <button class="quiet danger" type="submit">Delete repository</button>`,
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
    <button class="quiet" type="submit">Change default branch</button>`,
  )
}

function followForm({ session, repository, form, errors }: SettingsView, follows: boolean): Html {
  const isChecked = form.get('change') === 'follow' ? form.has('follow') : follows
  return changeForm(
    session,
    settingsPath(repository),
    'follow',
    html`${from(String(follows))}<div class="field">
      <label class="check"><input type="checkbox" name="follow" value="yes" ${isChecked ? 'checked' : ''}
        aria-describedby="follow-hint"> Follow a push that deletes it</label>
      <p class="hint" id="follow-hint">For mirrors: when the default branch is renamed at the origin, the branch that continues it becomes
        the default branch here, and the push is not refused.</p>
      ${fieldError('follow', errors.follow)}
    </div>
    <button class="quiet" type="submit">Change what it follows</button>`,
  )
}

/** Renders the field with what a form changes, which may be another value when it is sent. */
function from(value: string): Html {
  return html`<input type="hidden" name="from" value="${value}">`
}
