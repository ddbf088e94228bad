import { isFullId, isShortId } from '../../../domain/commit-id.ts'
import type { GitClient } from '../../../git/history/cached-reads.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import type { PageContext } from '../../parts/page-context.ts'

/** What the last part of a commit's path names. */
export type Named =
  | { kind: 'commit'; sha: string }
  /** A branch, a tag or a short id: the commit page is elsewhere. */
  | { kind: 'other name'; sha: string }
  | { kind: 'ambiguous'; id: string; candidates: string[]; more: boolean }

/** Commits that are listed for an ambiguous id. */
const CANDIDATES = 20

/**
 * Finds the commit that a user names: by its full id, else by a branch, else by a tag, else by at least 7 digits of its id.
 * A full id is never a name, even if there is no such commit.
 *
 * @returns null if nothing has this name
 * @throws RepositoryUnavailable
 */
export async function resolveCommit(
  { refs, revisions, store }: PageContext,
  repository: ReadableRepository,
  text: string,
  client: GitClient,
): Promise<Named | null> {
  const id = text.toLowerCase()
  if (isFullId(id, repository.objectFormat)) return { kind: 'commit', sha: id }
  const { branches, tags } = await refs.list(repository, client)
  const listed = [...branches, ...tags].find(({ name }) => name === text)
  // Tags of tags may not be listed.
  const ref = listed ?? (await refs.findUnlisted(repository, text, client))
  if (ref) return { kind: 'other name', sha: ref.sha }
  if (isShortId(text, repository.objectFormat)) {
    const [inGit, reported] = await Promise.all([
      revisions.withPrefix(repository, id, client),
      store.statuses.commitsWithPrefix(repository.id, id, CANDIDATES + 1),
    ])
    const found = [...new Set([...inGit, ...reported])].sort()
    const [sha] = found
    if (sha !== undefined && found.length === 1) return { kind: 'other name', sha }
    const candidates = found.slice(0, CANDIDATES)
    if (sha !== undefined) return { kind: 'ambiguous', id, candidates, more: found.length > CANDIDATES }
  }
  return null
}
