import type { FastifyReply, FastifyRequest } from 'fastify'
import { authenticate } from '../../../auth/password.ts'
import { isOwnerName } from '../../../domain/names.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import type { User } from '../../../store/accounts/user-rows.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { sessionOf } from '../../session/session-auth.ts'
import { type SignInView, signInView } from './sign-in-view.ts'

/** Registers `/login` and `/logout`. */
export async function signInPages(pages: Pages, options: PageContext): Promise<void> {
  const { store, budget, sessionAuth, oidc, passwordSignIn } = options
  pages.get<{ Querystring: Query<'next'> }>('/login', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    if (sessionOf(request).user) return reply.redirect(next, 303)
    return sendSignIn(request, reply, options, { next })
  })

  const form = {
    find: async (_request: FastifyRequest) => ({}),
    send: (request: FastifyRequest, reply: FastifyReply, _subject: object, result: Result) =>
      sendSignIn(request, reply.code(401), options, result),
    refused: (error: string) => ({ next: '/', error }),
  }

  if (passwordSignIn)
    pages.form('/login', {
      ...form,
      // A sign-in is a credential: when the budget is spent, it is refused before its body is read.
      admit: (request) => budget.check(request.client.address),
      async submit({ request, reply, form }) {
        const { address } = request.client
        // Other attempts may have spent the budget while the form was being received.
        await budget.check(address)
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
        if (user === null || !(await sessionAuth.signIn(request, reply, user)))
          return { refused: { next, name, error: 'Wrong name or password.' } }
        return { path: next }
      },
    })

  pages.form('/logout', {
    ...form,
    async submit({ request, reply }) {
      const isLinked = await sessionAuth.signOut(request, reply)
      return { path: oidc && isLinked ? '/login/signed-out' : '/' }
    },
  })
}

/** Where a sign-in leads, and why it failed. */
type Result = Pick<SignInView, 'next' | 'name' | 'error'>

/** Sends the sign-in page. */
export function sendSignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { oidc, passwordSignIn }: Pick<PageContext, 'oidc' | 'passwordSignIn'>,
  result: Result,
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
