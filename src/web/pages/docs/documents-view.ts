import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { recipePath } from '../../text/ci-lines.ts'
import { type Html, html } from '../../text/html.ts'
import { markdownView } from './markdown.ts'
import { fillIn, RECIPES_FOLDER, RECIPES_INDEX } from './recipes.ts'

/** The notes of the README of the recipes: what comes after their table. */
const NOTES = sectionsOf(resolve(RECIPES_FOLDER, RECIPES_INDEX))
const CLIENT = sectionsOf(resolve(RECIPES_FOLDER, '../typescript/README.md'))

/** The content of `/docs/recipes/notes`, for a server and, where one is chosen, a repository. */
export function notesView(origin: string, repository: string): Html {
  return html`<h1>Notes on recipes</h1>
<p>They hold for all <a href="${recipePath(repository)}">recipes</a>.</p>
${documentView(NOTES, origin, repository)}`
}

/** The content of `/docs/client`, for a server and, where one is chosen, a repository. */
export function clientView(origin: string, repository: string): Html {
  return html`<h1>Client</h1>
<p>The command line <code>commit-status</code>, and the client for programs in TypeScript and JavaScript. The
<a href="/assets/client.md">document in Markdown</a>.</p>
${documentView(CLIENT, origin, repository)}`
}

function sectionsOf(file: string): string {
  const text = readFileSync(file, 'utf8')
  return text.slice(text.indexOf('\n## ') + 1)
}

function documentView(text: string, origin: string, repository: string): Html {
  return markdownView(fillIn(text, origin, repository), (target) => pathOf(target, repository))
}

/** Returns where the target of a link in a document of the clients leads on the site; null if it is nowhere there. */
function pathOf(target: string, repository: string): string | null {
  if (/^(?:#|https:)/.test(target)) return target
  const [file = '', heading = ''] = target.split('#')
  const query = repository && `?repository=${encodeURIComponent(repository)}`
  const end = `${query}${heading && `#${heading}`}`
  if (file === '../typescript/README.md') return `/docs/client${end}`
  if (file === '../recipes/README.md') return `/docs/recipes/notes${end}`
  if (file === '../recipes') return recipePath(repository)
  if (file === '../shell/commit-status') return '/assets/commit-status.sh'
  // The guide of administrators.
  if (file.startsWith('../../')) return null
  return recipePath(repository, file)
}
