import type { FastifyReply } from 'fastify'
import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import { sendPage } from '../layout/layout.ts'
import { repositoryHead } from '../layout/repository-head.ts'
import { type Html, html } from '../text/html.ts'
import { pathOf, refQuery } from '../text/repository-paths.ts'
import { formatAge, shownText, visibleText } from '../text/text.ts'

/** Characters. No name is longer. */
const MAX_NAME = 1_024
/** Suggestions for the name of a ref that does not exist. */
const SUGGESTIONS = 50

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
  const contains = containing(wanted)
  const isLike = (ref: Ref) => contains(ref) || isTypo(ref.name, wanted)
  const suggestions = [...refs.branches, ...refs.tags].filter(isLike).slice(0, SUGGESTIONS)
  return html`${repositoryHead(repository, { tab: 'commits' })}
<h1>Not found</h1>
<p class="empty">There is no commit, branch or tag <strong>${shownText(wanted)}</strong>. Commit ids may be abbreviated to 7 or more hex
  digits. <a href="${pathOf(repository)}">Show the default branch</a></p>
${
  suggestions.length > 0
    ? html`<h2>Similar names</h2>
<ul class="list">${suggestions.map(
        (
          ref,
        ) => html`<li class="ref"><a href="${pathOf(repository)}${refQuery(refs, ref)}">${shownText(ref.name)}</a>
  <span class="faint">${ref.kind === 'tag' ? 'tag · ' : ''}${ref.date ? formatAge(ref.date) : ''}</span></li>`,
      )}</ul>`
    : ''
}
${refs.more ? html`<p class="hint">Not all names of this repository were compared. One that is typed in full is found nevertheless.</p>` : ''}`
}

/** Returns the only branch or tag whose name contains a text; null if there are none or several. */
export function onlyRefWith({ branches, tags, more }: Refs, text: string): Ref | null {
  const [ref, ...others] = [...branches, ...tags].filter(containing(text))
  return ref && others.length === 0 && !more ? ref : null
}

/** Returns a function that tells whether the name of a ref contains a text, in upper or lower case. */
function containing(text: string): (ref: Ref) => boolean {
  if (text.length > MAX_NAME) return () => false
  const wanted = text.toLowerCase()
  return ({ name }) => name.toLowerCase().includes(wanted)
}

/** Returns whether names differ in at most two neighboring characters: `mian` and `main`. */
function isTypo(name: string, wanted: string): boolean {
  const shorter = Math.min(name.length, wanted.length)
  let same = 0
  while (same < shorter && name[same] === wanted[same]) same++
  for (let end = 1; same < shorter && name.at(-end) === wanted.at(-end); end++) same++
  return same >= 2 && Math.max(name.length, wanted.length) - same <= 2
}
