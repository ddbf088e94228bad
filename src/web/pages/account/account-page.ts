import type { FastifyReply, FastifyRequest } from 'fastify'
import { authenticate, hashPassword } from '../../../auth/password.ts'
import { checkNewPassword } from '../../../auth/password-rules.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import type { SessionUser } from '../../../store/accounts/sessions.ts'
import { readEvents } from '../../events/event-list.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { type AccountView, accountView } from './account-view.ts'

/** Maximum number of sessions on a page. */
const SESSIONS = 100
const PATH = '/settings/account'
const WRONG = 'This is not your current password.'

interface SessionRoute {
  Params: { id: string }
}

/** What a form of the page has led to. */
type Result = Pick<AccountView, 'errors' | 'changed'>

/** Registers `/settings/account`: a signed-in user's password, sessions and security events. */
export async function accountPages(
  pages: Pages,
  { store, budget, sessionAuth, oidc, passwordSignIn }: PageContext,
): Promise<void> {
  pages.requireSignIn(PATH)

  const send = async (
    request: FastifyRequest,
    reply: FastifyReply,
    result: Result = {},
    before = '',
  ): Promise<FastifyReply> => {
    const user = userOf(request)
    const sessions = await store.sessions.list(user.id, SESSIONS + 1)
    const events = await readEvents((...page) => store.auditLog.latest(user, ...page), before)
    const isLinked = oidc && (await store.users.get(user.name)).subject !== null
    const content = accountView({
      hasPassword: passwordSignIn && !isLinked,
      session: sessionOf(request),
      sessions: sessions.slice(0, SESSIONS),
      moreSessions: sessions.length > SESSIONS,
      events,
      ...result,
    })
    return sendPage(reply, { title: 'Account' }, content)
  }

  pages.get<{ Querystring: Query<'before'> }>(PATH, (request, reply) =>
    send(request, reply, {}, firstOf(request.query.before)),
  )

  const form = {
    find: async (request: FastifyRequest) => userOf(request),
    send: (request: FastifyRequest, reply: FastifyReply, _user: SessionUser, result: Result) =>
      send(request, reply, result),
  }

  pages.form('/settings/account/password', {
    ...form,
    // The current password is a credential: over the budget, it is refused before the body is read.
    admit: (request) => budget.check(request.client.address),
    refused: (problem) => ({ errors: { password: problem } }),
    async submit({ request, reply, form, subject: signedIn }) {
      const { address } = request.client
      // Other attempts may have spent the budget while the form was being received.
      await budget.check(address)
      const current = form.get('current') ?? ''
      const password = form.get('password') ?? ''
      if (password !== form.get('again'))
        return { refused: { errors: { again: 'The two passwords differ.' } } }
      await checkNewPassword(password, signedIn.name)

      const compare = async () => authenticate(await store.users.find(signedIn.name), current)
      const failure = () => ({ at: 'password', user: signedIn }) as const
      const user = await budget.attempt(address, compare, failure, connectionSignal(request.raw.socket))

      const changed =
        user?.id === signedIn.id
          ? await sessionAuth.setPassword(request, reply, user, await hashPassword(password))
          : null
      return changed ? { shown: { changed } } : { refused: { errors: { current: WRONG } } }
    },
  })

  pages.form('/settings/account/sessions/:id/end', {
    ...form,
    find: async (request: FastifyRequest<SessionRoute>) => userOf(request),
    refused: () => ({}),
    async submit({ request, transact }) {
      // One that has ended meanwhile is the desired result.
      await transact((change) => store.sessions.endOwn(change, request.params.id))
      return { path: PATH }
    },
  })

  pages.form('/settings/account/sessions/end-others', {
    ...form,
    refused: () => ({}),
    async submit({ transact }) {
      await transact((change) => store.sessions.endOthers(change))
      return { path: PATH }
    },
  })
}
