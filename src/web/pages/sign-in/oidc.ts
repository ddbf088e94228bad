import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { ATTEMPT_LIFETIME, type Oidc, type Person, SignInFailed } from '../../../auth/oidc.ts'
import { RuleViolation } from '../../../domain/rule-violation.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import type { User } from '../../../store/accounts/users.ts'
import { FairQueue } from '../../../util/fair-queue.ts'
import { shellQuote } from '../../../util/shell-quote.ts'
import { truncate } from '../../../util/truncate.ts'
import { html } from '../../parts/html.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { sentence, shownText } from '../../parts/text.ts'
import { localPath, sendSignIn } from './page.ts'

/** Why a person whom the provider knows cannot sign in. */
interface Refusal {
  /** For the event: nothing that the provider said. */
  reason: 'claim' | 'name' | 'locked'
  /** Says what to ask for. */
  message: string
  /** For an administrator, who can link the account. */
  subject?: string
}

/** Longest path in the cookie of a sign-in, of which browsers keep 4,096 bytes, and longest message on a page. */
const MAX_NEXT = 1_500
const MAX_MESSAGE = 500
/** Bounds the answers that the provider is asked about at a time. The timeout is in milliseconds. */
const QUEUE = { slots: 32, slotsPerClient: 8, waiting: 1_024, waitingPerClient: 256, timeout: 10_000 }
const FAILED = 'The sign-in was not completed, or took too long. Start again.'

/** Registers what lies below `/login/`: the way to the provider, the way back, and the way out. */
export async function oidcSignIn(app: FastifyInstance, options: PageContext & { oidc: Oidc }): Promise<void> {
  const { store, budget, sessionAuth, oidc } = options
  const publicUrl = options.publicUrl ?? ''
  const secure = publicUrl.startsWith('https:')
  const name = secure ? '__Host-sign-in' : 'sign-in'
  const queue = new FairQueue(QUEUE)

  // The only trace of an attempt, so that nobody can fill a table, and an answer counts only in the browser that asked. Lax,
  // since the browser comes back from another site.
  const setCookie = (reply: FastifyReply, value: string, maxAge: number) =>
    reply.header(
      'set-cookie',
      stringifySetCookie({ name, value, maxAge, path: '/', httpOnly: true, sameSite: 'lax', secure }),
    )

  app.get<{ Querystring: Query<'next'> }>('/login/oidc', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    const { url, sealed } = await oidc.start(next.length > MAX_NEXT ? '/' : next)
    return setCookie(reply, sealed, ATTEMPT_LIFETIME).redirect(url, 303)
  })

  app.get('/login/callback', async (request, reply) => {
    const { address } = request.client
    await budget.check(address)
    const attempt = await oidc.resume(parseCookie(request.headers.cookie ?? '')[name] ?? '')
    setCookie(reply, '', 0)
    // Not counted, like a form of another site: a foreign page can make a browser send this.
    if (!attempt) return sendSignIn(request, reply.code(401), options, { next: '/', error: FAILED })
    const { next } = attempt
    const ask = async () => {
      // Others may have spent the budget meanwhile.
      await budget.check(address)
      return oidc.finish(request.url.split('?')[1] ?? '', attempt)
    }
    const person = await queue
      .run(address, ask, connectionSignal(request.raw.socket))
      .catch((error: unknown) => {
        if (error instanceof SignInFailed) return null
        throw error
      })
    const found = person && (await findOrCreateUser(person, address))
    if (found && 'id' in found && (await sessionAuth.signIn(request, reply, found, true)))
      return reply.redirect(next, 303)
    // Bounds the requests to the provider, and the events.
    await budget.count(address)
    if (!found || 'id' in found) return sendSignIn(request, reply.code(401), options, { next, error: FAILED })
    const details = { issuer: oidc.issuer, reason: found.reason }
    const by = { kind: 'anonymous', address } as const
    const event = { by, action: 'sign-in.refused', object: address, details } as const
    await store.audit.transaction((_db, record) => record(event))
    const content = html`<div class="card narrow">
  <h1>You cannot sign in</h1>
  <p>${shownText(truncate(found.message, MAX_MESSAGE))}</p>
  ${
    found.subject &&
    html`<p>Ask an administrator to link your account to a user:</p>
  <pre>user link NAME --subject ${shellQuote(found.subject)}</pre>`
  }
  <p><a href="/login/signed-out">Sign out of ${oidc.name}</a> to use another account.</p>
</div>`
    return sendPage(reply.code(403), { title: 'You cannot sign in', session: request.session }, content)
  })

  // A page, because the policy for forms would stop a redirect of the form that signs out.
  app.get('/login/signed-out', async ({ session }, reply) => {
    const url = session.user ? null : await oidc.endSession(`${publicUrl}/`).catch(() => null)
    if (url === null) return reply.redirect('/', 303)
    const head = html`<meta http-equiv="refresh" content="0; url=${url}">`
    const content = html`<div class="notice">
  <h1>Signed out</h1>
  <p><a href="${url}">Sign out of ${oidc.name} too</a></p>
</div>`
    return sendPage(reply, { title: 'Signed out', session, head }, content)
  })

  async function findOrCreateUser(
    { subject, name, permitted }: Person,
    address: string,
  ): Promise<User | Refusal> {
    const manager = `Ask for it where your account at ${oidc.name} is managed.`
    if (!permitted) return { reason: 'claim', message: `You need ${oidc.required} to sign in. ${manager}` }
    try {
      const user = await store.identities.findOrCreate({ issuer: oidc.issuer, subject }, name, address)
      if (user.locked_at === null) return user
      return { reason: 'locked', message: 'Your user is locked. Ask an administrator to unlock it.' }
    } catch (error) {
      if (!(error instanceof RuleViolation)) throw error
      const message = name === '' ? `${oidc.name} does not tell your name.` : sentence(error.message)
      return { reason: 'name', message, subject }
    }
  }
}
