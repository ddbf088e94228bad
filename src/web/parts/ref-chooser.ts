import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import { memoizeByObject } from '../../util/memoize.ts'
import { type Html, html } from './html.ts'
import { visibleText } from './text.ts'

/** Branches and tags to choose from. Further ones are found by the field of the page. */
const CHOICES = 100

/** Returns the default ref of a page; null if there is none. HEAD without a branch has no name. */
export function headOf({ defaultBranch, head }: Refs): Ref | null {
  return head === null ? null : { kind: 'branch', name: defaultBranch ?? '', sha: head, date: null }
}

/** Returns the name of a branch; null for a tag, HEAD without a branch, or nothing. */
export function branchOf(ref: Ref | null): string | null {
  return ref?.kind === 'branch' && ref.name !== '' ? ref.name : null
}

/** Renders the choice of a branch or tag. */
export function refChooser(path: string, refs: Refs, ref: Ref | null): Html {
  const choices = (kind: Ref['kind'], list: readonly Ref[]) => {
    const newest = list.slice(0, CHOICES)
    const others =
      ref?.name && ref.kind === kind && !newest.some(({ name }) => name === ref.name) ? [ref] : []
    return [...others, ...newest]
  }
  const option = (choice: Ref) => {
    const selected = ref?.kind === choice.kind && ref.name === choice.name
    return html`<option value="${refName(refs, choice)}"${selected ? html` selected` : ''}>${visibleText(choice.name)}</option>`
  }
  const group = (label: string, list: Ref[]) =>
    list.length > 0 ? html`<optgroup label="${label}">${list.map(option)}</optgroup>` : ''
  return html`<form class="choose" action="${path}">
    <label class="sr" for="ref">Branch or tag</label>
    <select id="ref" name="ref">${ref?.name ? '' : html`<option value="">HEAD</option>`}
      ${group('Branches', choices('branch', refs.branches))}${group('Tags', choices('tag', refs.tags))}</select>
    <button class="quiet" type="submit">Show</button>
  </form>`
}

/** Returns the query that shows a ref; empty for HEAD without a branch. Slashes stay readable. */
export function refQuery(refs: Refs, ref: Ref | null): string {
  const name = ref ? refName(refs, ref) : ''
  return name === '' ? '' : `?ref=${encodeURIComponent(name).replaceAll('%2F', '/')}`
}

/** Returns the name by which pages find a ref. A tag named like a branch is named in full. */
export function refName({ branches }: Refs, { kind, name }: Ref): string {
  return kind === 'tag' && namesOf(branches).has(name) ? `refs/tags/${name}` : name
}

/** The same list of refs is shown until a ref changes. */
const namesOf = memoizeByObject((refs: readonly Ref[]) => new Set(refs.map(({ name }) => name)))
