import { allows } from '../../domain/permissions.ts'
import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import { type Html, html } from '../text/html.ts'
import { pathOf, refName, refQuery, settingsPath } from '../text/repository-paths.ts'
import { visibleText } from '../text/text.ts'

/** The pages of a repository that its head leads to. */
type Tab = 'commits' | 'checks' | 'rules' | 'settings'

/** What the head says of its page. */
interface Page {
  /** The page, or the one that it is a part of. */
  tab: Tab
  /** What the page shows of the repository, which its other pages show too. */
  shown?: Shown | null
  /** Whether the name is the title of the page. */
  isTitle?: boolean
  /** Whether the field suggests names, which are many bytes. It finds them in any case. */
  suggests?: boolean
}

interface Shown {
  refs: Refs
  /** null if HEAD is a branch without commits. */
  ref: Ref | null
}

/** The pages of the settings of a repository: the ends of their paths, and their names. */
const SETTINGS = [
  ['', 'General'],
  ['/access', 'Access'],
  ['/events', 'Events'],
] as const
/** Branches, and tags, that are suggested. */
const SUGGESTED = 50

/**
 * Renders the head of every page of a repository: its name, its other pages, and the field that finds
 * a branch, a tag or a commit.
 */
export function repositoryHead(
  repository: ReadableRepository,
  { tab, shown, isTitle = false, suggests = false }: Page,
): Html {
  const { owner, name, visibility, permission } = repository
  const path = pathOf(repository)
  const query = shown ? refQuery(shown.refs, shown.ref) : ''
  const isAdmin = allows(permission, 'admin')
  const title = html`<a href="/${owner}">${owner}</a> / <a href="${path}">${name}</a> <span class="badge">${visibility}</span>`
  const link = (to: Tab, text: string, href: string) =>
    html`<a href="${href}"${to === tab ? html` aria-current="page"` : ''}>${text}</a>`
  return html`<header class="head">${isTitle ? html`<h1>${title}</h1>` : html`<p>${title}</p>`}
<form class="choose" role="search" action="${path}/commits">${tab === 'checks' ? html`<input type="hidden" name="of" value="checks">` : ''}
<input id="find" name="find" aria-label="Branch, tag or commit" placeholder="Find a branch, tag or commit" autocomplete="off" spellcheck="false"${suggests ? html` list="refs"` : ''}>
<button class="quiet">Go</button>${suggests && shown ? suggestions(shown) : ''}</form>
<nav class="tabs" aria-label="Repository">${link('commits', 'Commits', path + query)}${link('checks', 'Checks', `${path}/checks${query}`)}${link('rules', 'Rules', isAdmin ? settingsPath(repository, '/checks') : `${path}#rules`)}${isAdmin ? link('settings', 'Settings', settingsPath(repository)) : ''}</nav></header>`
}

/** Renders the head of a page of settings, with links to the others. */
export function settingsHead(repository: ReadableRepository, page: (typeof SETTINGS)[number][0]): Html {
  const link = ([end, text]: (typeof SETTINGS)[number]) =>
    html`<a href="${settingsPath(repository, end)}"${end === page ? html` aria-current="page"` : ''}>${text}</a>`
  const skipTo = page === '/events' ? 'events' : 'settings'
  return html`<a class="skip" href="#${skipTo}">Skip to ${skipTo}</a>${repositoryHead(repository, { tab: 'settings' })}
<h1 id="settings">Settings</h1>
<nav class="parts" aria-label="Settings">${SETTINGS.map(link)}</nav>`
}

/** Renders the newest branches and tags as suggestions for the field. */
function suggestions({ refs }: Shown): Html {
  const option = (ref: Ref) => {
    const [value, text] = [refName(refs, ref), visibleText(ref.name)]
    return html`<option value="${value}"${value === text ? '' : html` label="${text}"`}>`
  }
  return html`<datalist id="refs">${refs.branches.slice(0, SUGGESTED).map(option)}${refs.tags.slice(0, SUGGESTED).map(option)}</datalist>`
}
