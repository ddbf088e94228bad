import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { authenticate, hashPassword } from '../../../auth/password.ts'
import { checkNewPassword } from '../../../auth/password-rules.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import { problemOf } from '../../forms/form.ts'
import { readEvents } from '../../parts/events.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, formOf, type Query } from '../../parts/query.ts'
import { requireSignIn, sessionOf, userOf } from '../../session/session-auth.ts'
import { type AccountView, accountView, type PasswordErrors } from './account-view.ts'

/** Maximum number of sessions on a page. */
const SESSIONS = 100
const WRONG = 'This is not your current password.'

/** Registers `/settings/account`: a signed-in user's password, sessions and security events. */
export async function accountPages(
  app: FastifyInstance,
  { store, budget, sessionAuth, oidc, passwordSignIn }: PageContext,
): Promise<void> {
  app.addHook('onRequest', requireSignIn('/settings/account'))

  const send = async (
    request: FastifyRequest,
    reply: FastifyReply,
    result: Pick<AccountView, 'errors' | 'changed'> = {},
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

  app.get<{ Querystring: Query<'before'> }>('/settings/account', (request, reply) =>
    send(request, reply, {}, firstOf(request.query.before)),
  )

  app.post('/settings/account/password', {
    // The current password is a credential: over the budget, it is refused before the body is read.
    onRequest: (request) => budget.check(request.client.address),
    async handler(request, reply) {
      const { address } = request.client
      // Other attempts may have spent the budget while the form was being received.
      await budget.check(address)
      const signedIn = userOf(request)
      const form = formOf(request)
      const current = form.get('current') ?? ''
      const password = form.get('password') ?? ''
      const errors = await findErrors(form, password, signedIn.name)
      if (errors) return send(request, reply.code(422), { errors })

      const compare = async () => authenticate(await store.users.find(signedIn.name), current)
      const failure = () => ({ at: 'password', user: signedIn }) as const
      const user = await budget.attempt(address, compare, failure, connectionSignal(request.raw.socket))

      const change =
        user?.id === signedIn.id
          ? await sessionAuth.setPassword(request, reply, user, await hashPassword(password))
          : null
      if (!change) return send(request, reply.code(422), { errors: { current: WRONG } })
      return send(request, reply, { changed: change })
    },
  })

  app.post<{ Params: { id: string } }>('/settings/account/sessions/:id/end', async (request, reply) => {
    const user = userOf(request)
    // One that has ended meanwhile is the desired result.
    await sessionAuth.transact(request)((change) => store.sessions.end(change, user, request.params.id))
    return reply.redirect('/settings/account', 303)
  })

  app.post('/settings/account/sessions/end-others', async (request, reply) => {
    const user = userOf(request)
    await sessionAuth.transact(request)((change) =>
      store.sessions.endAll(change, user, sessionOf(request).hash),
    )
    return reply.redirect('/settings/account', 303)
  })
}

/** Returns what is wrong with the form; null if the new password can be used. */
async function findErrors(
  form: URLSearchParams,
  password: string,
  userName: string,
): Promise<PasswordErrors | null> {
  if (password !== form.get('again')) return { again: 'The two passwords differ.' }
  const problem = await problemOf(() => checkNewPassword(password, userName))
  return problem ? { password: problem } : null
}
