import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Budget } from '../../../auth/budget.ts'
import { authenticate } from '../../../auth/password.ts'
import { isOwnerName } from '../../../domain/names.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import type { User } from '../../../store/accounts/users.ts'
import type { Store } from '../../../store/store.ts'
import { html } from '../../parts/html.ts'
import { csrfField, sendPage } from '../../parts/layout.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import type { SessionAuth } from '../../session/session-auth.ts'

interface SignInOptions {
  store: Store
  budget: Budget
  sessionAuth: SessionAuth
}

/** Registers `/login` and `/logout`. */
export async function signIn(
  app: FastifyInstance,
  { store, budget, sessionAuth }: SignInOptions,
): Promise<void> {
  app.get<{ Querystring: Query<'next'> }>('/login', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    if (request.visitor.user) return reply.redirect(next, 303)
    return sendForm(request, reply, { next })
  })

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
        return authenticate(named, password)
      }
      const failed = () => ({ at: 'sign-in', user: named }) as const
      const user = await budget.attempt(address, compare, failed, connectionSignal(request.raw.socket))
      if (user === null || !(await sessionAuth.signIn(request, reply, user))) {
        reply.code(401)
        return sendForm(request, reply, { next, name, failed: true })
      }
      return reply.redirect(next, 303)
    },
  })

  app.post('/logout', async (request, reply) => {
    await sessionAuth.signOut(request, reply)
    return reply.redirect('/', 303)
  })
}

async function sendForm(
  request: FastifyRequest,
  reply: FastifyReply,
  { next, name = '', failed = false }: { next: string; name?: string; failed?: boolean },
): Promise<FastifyReply> {
  const { visitor } = request
  const error = html`<p class="error" id="sign-in-error" role="alert">Wrong name or password.</p>`
  const content = html`<div class="card narrow">
  <h1>Sign in</h1>
  ${failed ? error : ''}
  <form method="post" action="/login">
    ${csrfField(visitor)}
    <input type="hidden" name="next" value="${next}">
    <label for="name">Name</label>
    <input id="name" name="name" value="${name}" autocomplete="username" autocapitalize="none" spellcheck="false"
      required maxlength="100" ${failed ? html`aria-describedby="sign-in-error"` : html`autofocus`}>
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required
      ${failed ? html`aria-describedby="sign-in-error" autofocus` : ''}>
    <button type="submit">Sign in</button>
  </form>
  <p class="hint">An administrator creates accounts. CI jobs do not sign in; they use a token.</p>
</div>`
  return sendPage(reply, { title: 'Sign in', visitor }, content)
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
