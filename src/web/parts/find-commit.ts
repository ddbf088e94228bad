import type { FastifyReply } from 'fastify'
import { allows } from '../../domain/permissions.ts'
import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import { settingsPath } from './administration.ts'
import { type Html, html } from './html.ts'
import { sendPage } from './layout.ts'
import { refQuery } from './ref-chooser.ts'
import { formatAge, shownText, visibleText } from './text.ts'

/** Suggestions for the name of a ref that does not exist. */
const SUGGESTIONS = 50

/** Renders the way back to a repository, and a field that finds a commit. @param query of a ref */
export function repositoryHead({ owner, name, permission }: ReadableRepository, query = ''): Html {
  const settings = html` · <a href="${settingsPath({ owner, name })}">Settings</a>`
  return html`<div class="titled"><p class="crumbs"><a href="/${owner}">${owner}</a> / <a href="/${owner}/${name}${query}">${name}</a> · <a href="/${owner}/${name}/checks${query}">Checks</a>${allows(permission, 'admin') ? settings : ''}</p>
<form class="choose" role="search" aria-label="Commits" action="/${owner}/${name}/commits">
  <label class="sr" for="find">Commit id, branch or tag</label>
  <input id="find" name="find" required placeholder="Commit id, branch or tag" autocomplete="off" spellcheck="false">
  <button class="quiet" type="submit">Find</button>
</form></div>`
}

/** Sends the answer to a name that no commit, branch or tag has. */
export function sendUnknownName(
  reply: FastifyReply,
  repository: ReadableRepository,
  refs: Refs,
  name: string,
): FastifyReply {
  const title = `${visibleText(name)} · ${repository.owner}/${repository.name}`
  return sendPage(reply, { title }, unknownNameView(repository, refs, name))
}

function unknownNameView(repository: ReadableRepository, refs: Refs, wanted: string): Html {
  const { owner, name } = repository
  const text = wanted.toLowerCase()
  const isLike = (ref: Ref) => ref.name.toLowerCase().includes(text) || isTypo(ref.name, wanted)
  const suggestions = [...refs.branches, ...refs.tags].filter(isLike).slice(0, SUGGESTIONS)
  return html`${repositoryHead(repository)}
<h1>Not found</h1>
<p class="empty">There is no commit, branch or tag <strong>${shownText(wanted)}</strong>. Commit ids may be abbreviated to 7 or more hex
  digits. <a href="/${owner}/${name}">Show the default branch</a></p>
${
  suggestions.length > 0
    ? html`<h2>Similar names</h2>
<ul class="list">${suggestions.map(
        (
          ref,
        ) => html`<li class="ref"><a href="/${owner}/${name}${refQuery(refs, ref)}">${shownText(ref.name)}</a>
  <span class="faint">${ref.kind === 'tag' ? 'tag · ' : ''}${ref.date ? formatAge(ref.date) : ''}</span></li>`,
      )}</ul>`
    : ''
}`
}

/** Returns whether names differ in at most two neighboring characters: `mian` and `main`. */
function isTypo(name: string, wanted: string): boolean {
  const shorter = Math.min(name.length, wanted.length)
  let same = 0
  while (same < shorter && name[same] === wanted[same]) same++
  for (let end = 1; same < shorter && name.at(-end) === wanted.at(-end); end++) same++
  return same >= 2 && Math.max(name.length, wanted.length) - same <= 2
}
