import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { scopes } from '../../../../generated/operations.ts'
import { issueToken } from '../../../auth/issue-token.ts'
import { allows } from '../../../domain/permissions.ts'
import { insteadOf, ServiceError, Unavailable } from '../../../errors.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import type { TokenLimits } from '../../../store/access/token-limits.ts'
import type { TokenInfo } from '../../../store/accounts/tokens.ts'
import { problemOf } from '../../forms/form.ts'
import { type RecentContext, recentContexts } from '../../forms/recent-contexts.ts'
import { reportCommand } from '../../parts/ci-lines.ts'
import { gitClient } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, formOf, type Query } from '../../parts/query.ts'
import { requireSignIn, sessionOf, userOf } from '../../session/session-auth.ts'
import { EMPTY_FORM, readTokenForm } from './form.ts'
import { revokeView, type TokensView, tokensView } from './tokens-view.ts'

interface Route {
  Querystring: Query<'repository'>
}

/** Maximum number of repositories that the form offers. */
const CHOICES = 500
/** Number of repositories to search for a commit for the example. */
const EXAMPLES = 10

/** Registers `/settings/tokens`, where signed-in users list, create and revoke their tokens. */
export async function tokenPages(
  app: FastifyInstance,
  { store, sessionAuth, commitLog, tokenMaxLifetime }: PageContext,
): Promise<void> {
  app.addHook('onRequest', requireSignIn('/settings/tokens'))

  const send = async (
    request: FastifyRequest<Route>,
    reply: FastifyReply,
    view: Pick<TokensView, 'form' | 'created'>,
  ): Promise<FastifyReply> => {
    const { id } = userOf(request)
    const tokens = await store.tokens.list(id, id)
    const repository = await subjectOf(request)
    const recent: RecentContext[] = []
    if (repository) {
      const commits = await commitLog.newest(repository, gitClient(request)).catch(insteadOf(Unavailable, []))
      recent.push(...(await recentContexts(store.matrix, repository.id, commits)))
    }
    const content = tokensView({
      session: sessionOf(request),
      tokens,
      repository,
      repositories: await choicesOf(request, repository),
      recent,
      maxLifetime: tokenMaxLifetime,
      now: Date.now(),
      ...view,
    })
    return sendPage(reply, { title: 'Personal access tokens' }, content)
  }

  /**
   * Returns the repository that the page is for; null: none, or one that the user may not write to.
   */
  async function subjectOf(request: FastifyRequest<Route>): Promise<ReadableRepository | null> {
    const [owner = '', name = ''] = firstOf(request.query.repository).split('/')
    const repository = await store.listing.find(userOf(request).id, owner, name)
    return repository && allows(repository.permission, 'write') ? repository : null
  }

  /** Returns the repositories to which a token can be limited. */
  async function choicesOf(
    request: FastifyRequest<Route>,
    subject: ReadableRepository | null,
  ): Promise<ReadableRepository[]> {
    const writable = await store.listing.writable(userOf(request).id, CHOICES)
    return subject ? [subject, ...writable.filter(({ id }) => id !== subject.id)] : writable
  }

  app.get<Route>('/settings/tokens', async (request, reply) => {
    const repository = await subjectOf(request)
    if (!repository) return send(request, reply, { form: EMPTY_FORM })
    const name = `CI of ${repository.name}`
    const form = { ...EMPTY_FORM, name, push: false, repositories: new Set([repository.id]) }
    return send(request, reply, { form })
  })

  app.post<Route>('/settings/tokens', async (request, reply) => {
    const user = userOf(request)
    const repositories = await choicesOf(request, await subjectOf(request))
    const { form, expiresAt, limits } = readTokenForm(
      formOf(request),
      Date.now(),
      repositories,
      tokenMaxLifetime,
    )
    if (Object.keys(form.errors).length > 0) return send(request, reply.code(422), { form })
    const granted = form.repoScope ? [scopes.repo] : []
    const token = { userId: user.id, name: form.name, scopes: granted, expiresAt, limits }
    const { secret } = await sessionAuth.transact(request)((change) =>
      issueToken(change, store.tokens, token),
    )
    const example = await exampleFor(request, repositories, limits, secret)
    const origin = request.client.origin()
    return send(request, reply, { form: EMPTY_FORM, created: { secret, name: form.name, example, origin } })
  })

  app.get<{ Params: { id: string } }>('/settings/tokens/:id/revoke', async (request, reply) => {
    const content = revokeView(sessionOf(request), await tokenOf(request))
    return sendPage(reply, { title: 'Revoke token' }, content)
  })

  app.post<{ Params: { id: string } }>('/settings/tokens/:id/revoke', async (request, reply) => {
    const { id } = await tokenOf(request)
    // Another request may have revoked it, which is the desired result.
    await problemOf(() => sessionAuth.transact(request)((change) => store.tokens.revoke(change, id)))
    return reply.redirect('/settings/tokens', 303)
  })

  async function tokenOf(request: FastifyRequest<{ Params: { id: string } }>): Promise<TokenInfo> {
    const { id } = userOf(request)
    const tokens = await store.tokens.list(id, id)
    const token = tokens.find((token) => token.id === request.params.id)
    if (!token) throw new ServiceError('token_unknown')
    return token
  }

  /** Returns a command that reports a status, on a commit of the user if there is one. */
  async function exampleFor(
    request: FastifyRequest,
    repositories: readonly ReadableRepository[],
    limits: TokenLimits,
    secret: string,
  ): Promise<string> {
    const { address, origin } = request.client
    const { contexts } = limits
    const pattern = contexts === null ? '*' : contexts.find((pattern) => pattern.includes('*'))
    const context = pattern?.replaceAll('*', 'hello') ?? contexts?.[0] ?? ''
    const report = (path: string) => reportCommand(origin(), path, secret, context)
    // An exact name is that of a real check, which the example must not report by accident.
    const includedRepositories =
      pattern === undefined
        ? []
        : repositories.filter(({ id }) => limits.repositories?.includes(id) !== false)
    for (const repository of includedRepositories.slice(0, EXAMPLES)) {
      const [commit] = await commitLog.newest(repository, { address }).catch(insteadOf(Unavailable, []))
      if (commit) return report(`${repository.owner}/${repository.name}/statuses/${commit.sha}`)
    }
    return report('OWNER/REPOSITORY/statuses/COMMIT')
  }
}
