import { type Html, html } from '../../text/html.ts'

/** Returns where the target of a link leads on the site; null if it is nowhere there. */
export type PathOf = (target: string) => string | null

/**
 * Renders what the documents of the clients use of Markdown: headings of the second and third level,
 * code, tables, lists and paragraphs.
 */
export function markdownView(text: string, pathOf: PathOf): Html {
  let heading = ''
  const blockOf = (block: string): Html => {
    const [, marks, title = ''] = /^(###?) (.*)/.exec(block) ?? []
    if (marks === undefined) return blockView(block, heading, pathOf)
    heading = idOf(title)
    return marks.length === 2
      ? html`<h2 id="${heading}">${title}</h2>`
      : html`<h3 id="${heading}">${title}</h3>`
  }
  // Every other part is code.
  const blocks = text.split(/^```.*\n/m).flatMap((part, index) => {
    if (index % 2 === 1) return html`<pre tabindex="0"><code>${part.trimEnd()}</code></pre>`
    return part.trim().split('\n\n').filter(Boolean).map(blockOf)
  })
  return html`${blocks.map((block) => html`${block}\n`)}`
}

/**
 * Renders a block that an empty line ends: a table, a list or a paragraph.
 *
 * @param heading the id of the heading above it, which names a table
 */
function blockView(block: string, heading: string, pathOf: PathOf): Html {
  const inline = (text: string) => inlineView(text, pathOf)
  const items = (list: string) =>
    list
      .split(/^(?:-|\d+\.) /m)
      .slice(1)
      .map((item) => html`<li>${inline(item)}</li>`)
  if (block.startsWith('- ')) return html`<ul>${items(block)}</ul>`
  if (block.startsWith('1. ')) return html`<ol>${items(block)}</ol>`
  if (!block.startsWith('| ')) return html`<p>${inline(block)}</p>`
  const [head = [], , ...rows] = block.split('\n').map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="${heading}"><table>
<thead><tr>${head.map((cell) => (cell === '' ? html`<td></td>` : html`<th scope="col">${inline(cell)}</th>`))}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`
}

/** Renders text with code, emphasis and links. */
export function inlineView(text: string, pathOf: PathOf): Html {
  const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^[\]]+\]\([^()]+\))/)
  return html`${parts.map((part, index) => {
    if (index % 2 === 0) return part
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`
    if (part.startsWith('*')) return html`<strong>${inlineView(part.slice(2, -2), pathOf)}</strong>`
    const [label = '', target = ''] = part.slice(1, -1).split('](')
    const path = pathOf(target)
    return path === null
      ? inlineView(label, pathOf)
      : html`<a href="${path}">${inlineView(label, pathOf)}</a>`
  })}`
}

/** Returns the id of a heading, as Git servers that render Markdown make it. */
function idOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(' ', '-')
    .replace(/[^\w-]/g, '')
}
