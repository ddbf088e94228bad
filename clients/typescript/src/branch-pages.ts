import { unwrap } from './errors.ts'
import type { ListBranchesInput, ListBranchesResult } from './generated/operations.ts'
import type { components } from './generated/schema.ts'
import { nextLink } from './link-header.ts'

export type BranchPage = components['schemas']['BranchPage']

/** Iterates over the pages of `listBranches`, from the first, or from `after` on. */
export type BranchPages<Options> = (
  input: ListBranchesInput,
  options?: Options,
) => AsyncGenerator<BranchPage, void>

/**
 * Creates `branchPages`, which follows the links from page to page. With `verdict` a page may have no
 * branches and still be followed by others.
 */
export function createBranchPages<Options>(
  listBranches: (input: ListBranchesInput, options?: Options) => Promise<ListBranchesResult>,
): BranchPages<Options> {
  return async function* branchPages(input, options) {
    for (let after = input.after; ; ) {
      const result = await listBranches({ ...input, ...(after !== undefined && { after }) }, options)
      yield unwrap(result)
      const link = nextLink(result.headers.get('link'))
      const next = link === null ? null : new URL(link, 'http://localhost').searchParams.get('after')
      if (next === null) return
      if (next === after) throw new Error('the service answered a page whose next one is the same')
      after = next
    }
  }
}
