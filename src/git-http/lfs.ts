import type { FastifyInstance } from 'fastify'
import { isRepositoryPath } from '../domain/names.ts'
import { ServiceError } from '../errors.ts'

const MESSAGE =
  'Git LFS is not supported here. Store large files in git itself and clone with --filter=blob:none, or let ' +
  'lfs.url in the file .lfsconfig of the repository name an LFS server.'
const BODY = JSON.stringify({ message: MESSAGE })

/**
 * Answers requests of Git LFS, all alike and whoever sends them: its client prints `message`, and
 * takes 404 for a repository that is missing.
 */
export async function gitLfs(app: FastifyInstance): Promise<void> {
  for (const slash of ['', '/'])
    app.route<{ Params: { owner: string; repo: string } }>({
      method: ['GET', 'POST'],
      url: `/:owner/:repo${slash}/info/lfs/*`,
      config: { operation: 'git-lfs' },
      async handler({ params: { owner, repo } }, reply) {
        if (!isRepositoryPath(owner, repo)) throw new ServiceError('path_unknown')
        reply.code(501).header('cache-control', 'no-store').type('application/vnd.git-lfs+json')
        return reply.send(BODY)
      },
    })
}
