import type { FastifyReply, FastifyRequest } from 'fastify'
import { scopes } from '../../../../generated/operations.ts'
import { issueToken, rotateToken } from '../../../auth/issue-token.ts'
import { allows } from '../../../domain/permissions.ts'
import { ServiceError } from '../../../errors.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { TokenLimits } from '../../../store/access/token-limits.ts'
import type { TokenInfo } from '../../../store/accounts/shown-tokens.ts'
import { replacedName } from '../../../store/accounts/tokens.ts'
import { isExpired } from '../../../store/token-validity.ts'
import { insteadOf, Unavailable } from '../../../util/expected-errors.ts'
import { gitClient } from '../../finding/find-repository.ts'
import { problemOf } from '../../forms/form.ts'
import { type RecentContext, recentContexts } from '../../forms/recent-contexts.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { reportCommand } from '../../text/ci-lines.ts'
import { EMPTY_FORM, readTokenForm } from './form.ts'
import { type Rotation, revokeView, rotateView } from './token-views.ts'
import { type TokensView, tokensView } from './tokens-view.ts'

interface Route {
  Querystring: Query<'repository'>
}

interface TokenRoute {
  Params: { id: string }
}

/** What the page shows of a form. */
type View = Pick<TokensView, 'form' | 'created'>

const PATH = '/settings/tokens'
const REVOKE = `${PATH}/:id/revoke`
const ROTATE = `${PATH}/:id/rotate`
/** Milliseconds for which a secret that was replaced still works. */
const OVERLAP = 24 * 3_600_000
/** Maximum number of repositories that the form offers. */
const CHOICES = 500
/** Number of repositories to search for a commit for the example. */
const EXAMPLES = 10

/** Registers `/settings/tokens`, where signed-in users list, create, rotate and revoke their tokens. */
export async function tokenPages(
  pages: Pages,
  { store, commitLog, tokenMaxLifetime }: PageContext,
): Promise<void> {
  pages.requireSignIn(PATH)

  const send = async (
    request: FastifyRequest<Route>,
    reply: FastifyReply,
    view: View,
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

  pages.form(PATH, {
    find: async (request: FastifyRequest<Route>) => userOf(request),
    send: (request: FastifyRequest<Route>, reply, _user, view: View) => send(request, reply, view),

    async initial(request): Promise<View> {
      const repository = await subjectOf(request)
      if (!repository) return { form: EMPTY_FORM }
      const name = `CI of ${repository.name}`
      return { form: { ...EMPTY_FORM, name, push: false, repositories: new Set([repository.id]) } }
    },

    refused: (problem, fields) => {
      const { form } = readTokenForm(fields, Date.now(), [], tokenMaxLifetime)
      return { form: { ...form, errors: { name: problem } } }
    },
    async submit({ request, form: fields, transact }) {
      const repositories = await choicesOf(request, await subjectOf(request))
      const { form, expiresAt, limits } = readTokenForm(fields, Date.now(), repositories, tokenMaxLifetime)
      if (Object.keys(form.errors).length > 0) return { refused: { form } }
      const granted = form.repoScope ? [scopes.repo] : []
      const token = { name: form.name, scopes: granted, expiresAt, limits }
      const { secret } = await issueToken(token, (token) =>
        transact((change) => store.tokens.createOwn(change, token)),
      )
      const example = await exampleFor(request, repositories, limits, secret)
      const [only, ...others] = repositories.filter(({ id }) => limits.repositories?.includes(id))
      const repository = only && others.length === 0 ? `${only.owner}/${only.name}` : ''
      // The next token is as narrow as this one, unless the user says otherwise.
      const next = { ...form, name: '' }
      return { shown: { form: next, created: { secret, name: form.name, example, repository } } }
    },
  })

  pages.form(REVOKE, {
    find: tokenOf,
    initial: () => undefined,
    send: (request: FastifyRequest<TokenRoute>, reply, token) =>
      sendPage(reply, { title: 'Revoke token' }, revokeView(sessionOf(request), token)),
    refused: () => undefined,
    async submit({ request, subject: { id, name, reporterId }, transact }) {
      const old = replacedName(name)
      // Another token may have the same name.
      const isOld = (token: TokenInfo) => token.name === old && token.reporterId === reporterId
      const tokens = await store.tokens.list(userOf(request).id)
      const works = tokens.some((token) => isOld(token) && !isExpired(token.expiresAt, Date.now()))
      // Another request may have revoked it, which is the desired result.
      await problemOf(() => transact((change) => store.tokens.revoke(change, id)))
      const text = `The token “${name}” was revoked.`
      return {
        path: PATH,
        text: works
          ? `${text} Its old secret still works, as “${old}”, until you revoke that one too.`
          : text,
      }
    },
  })

  pages.form(ROTATE, {
    find: tokenOf,
    initial: (): Rotation => ({}),
    send: (request: FastifyRequest<TokenRoute>, reply, token, rotation: Rotation) =>
      sendPage(reply, { title: 'Rotate token' }, rotateView(sessionOf(request), token, rotation)),
    refused: (problem): Rotation => ({ problem }),
    async submit({ subject: { id }, transact }) {
      const rotated = await transact((change) =>
        rotateToken(change, store.tokens, id, OVERLAP, tokenMaxLifetime),
      )
      return { shown: { rotated } }
    },
  })

  async function tokenOf(request: FastifyRequest<TokenRoute>): Promise<TokenInfo> {
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
