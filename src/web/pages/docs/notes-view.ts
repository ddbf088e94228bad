import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { recipePath } from '../../text/ci-lines.ts'
import { type Html, html } from '../../text/html.ts'
import { fillIn, RECIPES_FOLDER, RECIPES_INDEX } from './recipes.ts'

const README = readFileSync(resolve(RECIPES_FOLDER, RECIPES_INDEX), 'utf8')
/** The notes of the README of the recipes: what comes after their table. */
const NOTES = README.slice(README.indexOf('\n## ') + 1)

/** The content of `/docs/recipes/notes`, for a server and, where one is chosen, a repository. */
export function notesView(origin: string, repository: string): Html {
  const blocks = fillIn(NOTES, origin, repository).trimEnd().split('\n\n')
  let heading = ''
  const rendered = blocks.map((block) => {
    const [, marks, title = ''] = /^(#+) (.*)/.exec(block) ?? []
    if (marks === undefined) return blockView(block, heading, repository)
    heading = idOf(title)
    return marks.length === 2
      ? html`<h2 id="${heading}">${title}</h2>`
      : html`<h3 id="${heading}">${title}</h3>`
  })
  return html`<h1>Notes on recipes</h1>
<p>They hold for all <a href="${recipePath(repository)}">recipes</a>.</p>
${rendered.map((block) => html`${block}\n`)}`
}

/**
 * Renders a block of the Markdown that the notes use, which an empty line ends: code, a table, a
 * list or a paragraph.
 *
 * @param heading the id of the heading above it, which names a table
 */
function blockView(block: string, heading: string, repository: string): Html {
  const inline = (text: string) => inlineView(text, repository)
  const lines = block.split('\n')
  if (block.startsWith('```'))
    return html`<pre tabindex="0"><code>${lines.slice(1, -1).join('\n')}</code></pre>`
  if (block.startsWith('- '))
    return html`<ul>${block
      .slice(2)
      .split('\n- ')
      .map((item) => html`<li>${inline(item)}</li>`)}</ul>`
  if (!block.startsWith('| ')) return html`<p>${inline(block)}</p>`
  const [head = [], , ...rows] = lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="${heading}"><table>
<thead><tr>${head.map((cell) => html`<th scope="col">${inline(cell)}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`
}

/** Renders text with code and links. */
export function inlineView(text: string, repository = ''): Html {
  const parts = text.split(/(`[^`]+`|\[[^[\]]+\]\([^()]+\))/)
  return html`${parts.map((part, index) => {
    if (index % 2 === 0) return part
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`
    const [label = '', target = ''] = part.slice(1, -1).split('](')
    return html`<a href="${pathOf(target, repository)}">${inlineView(label)}</a>`
  })}`
}

/** Returns where the target of a link is on the site: a heading, a recipe, or the README of the client. */
function pathOf(target: string, repository: string): string {
  if (target.startsWith('#')) return target
  return target.startsWith('../typescript/') ? '/assets/client.md' : recipePath(repository, target)
}

/** Returns the id of a heading, as Git servers that render Markdown make it. */
function idOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(' ', '-')
    .replace(/[^\w-]/g, '')
}
