import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { authenticate } from '../../../auth/password.ts'
import { isOwnerName } from '../../../domain/names.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import type { User } from '../../../store/accounts/users.ts'
import { html } from '../../parts/html.ts'
import { csrfField, sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, type Query } from '../../parts/query.ts'

/** Registers `/login` and `/logout`. */
export async function signIn(app: FastifyInstance, options: PageContext): Promise<void> {
  const { store, budget, sessionAuth, oidc, passwordSignIn } = options
  app.get<{ Querystring: Query<'next'> }>('/login', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    if (request.session.user) return reply.redirect(next, 303)
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
        const name = request.form.get('name') ?? ''
        const password = request.form.get('password') ?? ''
        const next = localPath(request.form.get('next'))
        let named: User | undefined
        const compare = async () => {
          named = isOwnerName(name) ? await store.users.find(name) : undefined
          // A linked user who has left the provider must not come back with a password.
          return authenticate(oidc && named?.oidc_subject ? undefined : named, password)
        }
        const failed = () => ({ at: 'sign-in', user: named }) as const
        const user = await budget.attempt(address, compare, failed, connectionSignal(request.raw.socket))
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

/** Sends the sign-in page. @param view where it returns to, and why a sign-in failed; the name, if it was with a password */
export function sendSignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { oidc, passwordSignIn }: Pick<PageContext, 'oidc' | 'passwordSignIn'>,
  { next, name, error }: { next: string; name?: string; error?: string },
): FastifyReply {
  const { session } = request
  const described = error ? html`aria-describedby="sign-in-error"` : null
  // What failed has the focus again, and screen readers announce the error with it.
  const [ofLink, ofForm] = name === undefined ? [described, null] : [null, described]
  // A link, because the policy for forms would stop the redirect to the provider.
  const link =
    oidc &&
    html`<p><a class="button" href="/login/oidc?next=${encodeURIComponent(next)}" ${ofLink && html`${ofLink} autofocus`}>Sign in with ${oidc.name}</a></p>`
  const form = () => html`<form method="post" action="/login">
    ${csrfField(session)}
    <input type="hidden" name="next" value="${next}">
    <label for="name">Name</label>
    <input id="name" name="name" value="${name}" autocomplete="username" autocapitalize="none" spellcheck="false"
      required maxlength="100" ${error ? ofForm : html`autofocus`}>
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required
      ${ofForm && html`${ofForm} autofocus`}>
    <button type="submit">Sign in</button>
  </form>`
  const accounts = oidc ? 'Your first sign-in creates your account.' : 'An administrator creates accounts.'
  const content = html`<div class="card narrow">
  <h1>Sign in</h1>
  ${error ? html`<p class="error" id="sign-in-error" role="alert">${error}</p>` : ''}
  ${link}
  ${passwordSignIn ? form() : ''}
  <p class="hint">${accounts} CI jobs do not sign in; they use a token.</p>
</div>`
  return sendPage(reply, { title: 'Sign in' }, content)
}

const HERE = 'http://here.invalid'

/** Returns the requested path if it belongs to this site, otherwise the start page. */
export function localPath(wanted: string | null | undefined): string {
  // Browsers treat a backslash as a slash and drop tabs and line breaks: `/\t/evil.example` is another host.
  if (!wanted?.startsWith('/') || /^\/[/\\]|[\p{Cc}\\]/u.test(wanted)) return '/'
  const url = URL.parse(wanted, HERE)
  // Normalized, `/.//evil.example` is another host as well.
  return url?.origin === HERE && !url.pathname.startsWith('//') ? url.pathname + url.search : '/'
}
