import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toCommitStatuses } from '../../src/api/handlers.ts'
import { issueToken } from '../../src/auth/issue-token.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import { openStore } from '../../src/store/store.ts'
import { pushCommits } from '../helpers/git.ts'

/** What is measured on. */
export interface Fixture {
  dataDir: string
  token: string
  /** A commit of `alice/public` for each number of contexts. */
  commits: Map<number, string>
  /** A commit of `alice/private` with 10 contexts. */
  privateCommit: string
  /** Commits of `alice/reports` without statuses. */
  fresh: string[]
  /** The answer for the commit with 10 contexts. */
  answer: object
}

export const SIZES = [1, 10, 112, 500]

/** Makes repositories with commits and statuses through the store. */
export async function makeFixture(): Promise<Fixture> {
  const dataDir = mkdtempSync(join(tmpdir(), 'bench-'))
  const store = await openStore({ dataDir })
  const { id: userId } = await store.users.create('alice')
  const { secret } = await issueToken(store.tokens, {
    userId,
    name: 'bench',
    scopes: ['repo'],
    expiresAt: null,
  })
  const create = async (name: string, visibility: 'public' | 'private', commits: number) => {
    const repository = await store.repositories.create(
      { owner: 'alice', name, visibility, objectFormat: 'sha1' },
      (path) => createBareRepository(path, 'sha1'),
    )
    return { id: repository.id, commits: pushCommits(repository.path, commits) }
  }
  const report = (repositoryId: number, sha: string, count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, index) =>
        store.statuses.report({
          repositoryId,
          sha,
          context: `ci/check-${index}`,
          state: 'success',
          description: `412 tests passed in ${index} s`,
          targetUrl: `https://ci.example.org/jobs/${index}`,
        }),
      ),
    )

  const open = await create('public', 'public', SIZES.length)
  const commits = new Map<number, string>()
  for (const [index, size] of SIZES.entries()) {
    const sha = open.commits[index] ?? ''
    await report(open.id, sha, size)
    commits.set(size, sha)
  }
  const closed = await create('private', 'private', 1)
  const [privateCommit = ''] = closed.commits
  await report(closed.id, privateCommit, 10)
  const { commits: fresh } = await create('reports', 'public', 112)
  const answer = toCommitStatuses(await store.statuses.list(open.id, commits.get(10) ?? ''))
  await store.close()
  return { dataDir, token: secret, commits, privateCommit, fresh, answer }
}
