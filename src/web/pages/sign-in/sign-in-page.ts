import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { authenticate } from '../../../auth/password.ts'
import { isOwnerName } from '../../../domain/names.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import type { User } from '../../../store/accounts/user-rows.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, formOf, type Query } from '../../parts/query.ts'
import { sessionOf } from '../../session/session-auth.ts'
import { type SignInView, signInView } from './sign-in-view.ts'

/** Registers `/login` and `/logout`. */
export async function signInPages(app: FastifyInstance, options: PageContext): Promise<void> {
  const { store, budget, sessionAuth, oidc, passwordSignIn } = options
  app.get<{ Querystring: Query<'next'> }>('/login', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    if (sessionOf(request).user) return reply.redirect(next, 303)
    return sendSignIn(request, reply, options, { next })
  })

  if (passwordSignIn)
    app.post('/login', {
      // A sign-in is a credential: when the budget is spent, it is refused before its body is read.
      onRequest: (request) => budget.check(request.client.address),
      async handler(request, reply) {
        const { address } = request.client
        // Other attempts may have spent the budget while the form was being received.
        await budget.check(address)
        const form = formOf(request)
        const name = form.get('name') ?? ''
        const password = form.get('password') ?? ''
        const next = localPath(form.get('next'))

        let named: User | undefined
        const compare = async () => {
          named = isOwnerName(name) ? await store.users.find(name) : undefined
          // A linked user who has left the provider must not come back with a password.
          return authenticate(oidc && named?.subject ? undefined : named, password)
        }
        const failure = () => ({ at: 'sign-in', user: named }) as const
        const user = await budget.attempt(address, compare, failure, connectionSignal(request.raw.socket))
        if (user === null || !(await sessionAuth.signIn(request, reply, user))) {
          reply.code(401)
          return sendSignIn(request, reply, options, { next, name, error: 'Wrong name or password.' })
        }
        return reply.redirect(next, 303)
      },
    })

  app.post('/logout', async (request, reply) => {
    const isLinked = await sessionAuth.signOut(request, reply)
    return reply.redirect(oidc && isLinked ? '/login/signed-out' : '/', 303)
  })
}

/** Sends the sign-in page. @param result where it returns to, and why a sign-in failed */
export function sendSignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { oidc, passwordSignIn }: Pick<PageContext, 'oidc' | 'passwordSignIn'>,
  result: Pick<SignInView, 'next' | 'name' | 'error'>,
): FastifyReply {
  const view = { session: sessionOf(request), provider: oidc?.name, passwordSignIn, ...result }
  return sendPage(reply, { title: 'Sign in' }, signInView(view))
}

const HERE = 'http://here.invalid'

/** Returns the requested path if it belongs to this site, otherwise the start page. */
export function localPath(wanted: string | null | undefined): string {
  // Browsers read a backslash as a slash and drop tabs and line breaks: `/\t/evil.example`.
  if (!wanted?.startsWith('/') || /^\/[/\\]|[\p{Cc}\\]/u.test(wanted)) return '/'
  const url = URL.parse(wanted, HERE)
  // Normalized, `/.//evil.example` is another host as well.
  return url?.origin === HERE && !url.pathname.startsWith('//') ? url.pathname + url.search : '/'
}
