import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import { memoizeByObject } from '../../util/memoize.ts'

type Named = Pick<ReadableRepository, 'owner' | 'name'>

/** Returns the path of the page of a repository, which the paths of its other pages begin with. */
export function pathOf({ owner, name }: Named): string {
  return `/${owner}/${name}`
}

/** Returns the path of the page of a commit. */
export function commitPath(repository: Named, sha: string): string {
  return `${pathOf(repository)}/commits/${sha}`
}

/** Returns the path of a page of settings. @param page the end of its path */
export function settingsPath(repository: Named, page = ''): string {
  return `${pathOf(repository)}/settings${page}`
}

/** Returns the default ref of a page; null if there is none. HEAD without a branch has no name. */
export function headOf({ defaultBranch, head }: Refs): Ref | null {
  return head === null ? null : { kind: 'branch', name: defaultBranch ?? '', sha: head, date: null }
}

/** Returns the name of a branch; null for a tag, HEAD without a branch, or nothing. */
export function branchOf(ref: Ref | null): string | null {
  return ref?.kind === 'branch' && ref.name !== '' ? ref.name : null
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
