import { isFullId, isShortId } from '../../../domain/commit-id.ts'
import { ServiceError } from '../../../errors.ts'
import type { QueueClient } from '../../../schedule/fair-queue.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { PageContext } from '../../routing/page-context.ts'

/**
 * Finds the commit that a user names: by its full id, else by a branch, else by a tag, else by at
 * least 7 digits of its id. A full id is never a name, even if there is no such commit.
 *
 * @returns the full id in lower case; null if nothing has this name
 * @throws ServiceError `field_invalid` if several commits begin with these digits;
 *   RepositoryUnavailable
 */
export async function resolveCommit(
  { refs, revisions }: PageContext,
  repository: ReadableRepository,
  text: string,
  client: QueueClient,
): Promise<string | null> {
  const id = text.toLowerCase()
  if (isFullId(id, repository.objectFormat)) return id

  const { branches, tags } = await refs.list(repository, client)
  const listedRef = [...branches, ...tags].find(({ name }) => name === text)
  // Tags of tags may not be listed.
  const ref = listedRef ?? (await refs.findUnlisted(repository, text, client))
  if (ref) return ref.sha
  if (!isShortId(text, repository.objectFormat)) return null

  const [sha, ...others] = await revisions.withPrefix(repository, id, client)
  if (others.length > 0)
    throw new ServiceError('field_invalid', `Several commits begin with ${id}. Use more digits.`)
  return sha ?? null
}
