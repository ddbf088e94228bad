import type { OwnerTrust } from '../domain/permissions.ts'
import { cannotOpen } from './errors.ts'
import { checkFolder } from './repository-health.ts'
import { findOwnerProblem } from './repository-owner.ts'

/** A repository in which git may run. Only this file makes one. */
export type { OpenedRepository }

class OpenedRepository {
  /** Its git directory: absolute, without symbolic links. */
  readonly path: string
  /** Keeps other objects with a path from being one. */
  declare protected readonly isOpened: true

  constructor(path: string) {
    this.path = path
  }
}

/** Where a repository is, and whether its owner is trusted. */
export interface RepositoryFiles {
  /** Its git directory: absolute. */
  path: string
  ownerTrust: OwnerTrust
}

/**
 * Opens a repository for git. Makes sure that its files can be opened, and that another account has
 * not put a repository of its own in the place of one whose owner is not trusted, which it can
 * where it may rename a folder above it. What is below `objects` is not checked: see
 * `checkObjects`.
 *
 * Open it each time before git starts, because both can change.
 *
 * @throws RepositoryUnavailable
 */
export async function openRepository({ path, ownerTrust }: RepositoryFiles): Promise<OpenedRepository> {
  const problem = ownerTrust === 'checked' ? await findOwnerProblem(path) : null
  if (problem) throw cannotOpen(path, `${problem.reason}; run "check" for what to do`)
  await checkFolder(path)
  return new OpenedRepository(path)
}

/** Returns one that was not checked: only for what creates one, or inspects one to import it. */
export function openUnchecked(path: string): OpenedRepository {
  return new OpenedRepository(path)
}
