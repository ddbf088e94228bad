import type { Oidc } from '../../../auth/oidc.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { insteadOf, ServiceError } from '../../../errors.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import { truncate } from '../../../util/truncate.ts'
import { html } from '../../parts/html.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import type { Pages } from '../../parts/pages.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { sentence } from '../../parts/text.ts'
import { sessionOf } from '../../session/session-auth.ts'
import { localPath, sendSignIn } from './sign-in-page.ts'
import { refusedView, signedOutView } from './sign-in-view.ts'

/** Seconds that people may take at the provider. */
const LIFETIME = 600
/** Longest path in the cookie of a sign-in, of which browsers keep 4,096 bytes. */
const MAX_NEXT = 1_200
/** Code points of a reason, which contains the name that the provider gives. */
const MAX_MESSAGE = 300
const FAILED = 'The sign-in was not completed, or took too long. Start again.'

/** Registers what lies below `/login/`: the way to the provider, the way back, and the way out. */
export async function oidcPages(pages: Pages, options: PageContext & { oidc: Oidc }): Promise<void> {
  const { store, providerBudget, sessionAuth, oidc } = options
  // The only trace of an attempt: nobody can fill a table, and only this browser can finish it.
  const cookie = sessionAuth.createCookie('sign-in')

  pages.get<{ Querystring: Query<'next'> }>('/login/oidc', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    const { url, secret } = await oidc.start()
    cookie.set(request, reply, secret + (next.length > MAX_NEXT ? '/' : next), LIFETIME)
    return reply.redirect(url, 303)
  })

  pages.get<{ Querystring: Query<'state'> }>('/login/callback', async (request, reply) => {
    const { client, query, url } = request
    const [, secret, path] = /^([\w-]{43})(\/.*)$/.exec(cookie.read(request) ?? '') ?? []
    const next = localPath(path)
    const fail = () => sendSignIn(request, reply.code(401), options, { next, error: FAILED })
    cookie.set(request, reply, '', 0)
    // Not counted, like a form of another site: a foreign page can make a browser send this.
    if (!secret || firstOf(query.state) !== oidc.stateOf(secret)) return fail()

    let refusal: { reason: 'claim' | 'name' | 'locked'; message: string; subject?: string } | undefined
    const signIn = async () => {
      const person = await oidc.finish(url.replace(/^[^?]*/, ''), secret)
      if (!person) return null
      const { subject, name, permitted } = person
      try {
        const identity = { issuer: oidc.issuer, subject }
        const user = permitted && (await store.users.findOrCreate(identity, name, client.address))
        if (user && (await sessionAuth.signIn(request, reply, user, true))) return user
        const advice = `You need ${oidc.required} to sign in. Ask for it where your account at ${oidc.name} is managed.`
        if (!user) refusal = { reason: 'claim', message: advice }
        // Otherwise something was changed meanwhile, and the next attempt says what.
        else if (user.lockedAt !== null)
          refusal = { reason: 'locked', message: 'Your user is locked. Ask an administrator to unlock it.' }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const message =
          name === ''
            ? `${oidc.name} does not tell your name.`
            : sentence(truncate(error.message, MAX_MESSAGE))
        refusal = { reason: 'name', message, subject }
      }
      return null
    }
    // Bounds what the provider is asked, and the events.
    const signal = connectionSignal(request.raw.socket)
    if (await providerBudget.attempt(client.address, signIn, () => ({ at: 'sign-in' }), signal))
      return reply.redirect(next, 303)
    if (!refusal) return fail()
    const { reason, message, subject } = refusal
    await sessionAuth.recordRefusal(request, oidc.issuer, reason)
    const content = refusedView(oidc.name, message, subject)
    return sendPage(reply.code(403), { title: 'You cannot sign in' }, content)
  })

  // A page, because the policy for forms would stop a redirect of the form that signs out.
  pages.get('/login/signed-out', async (request, reply) => {
    const { client } = request
    const url = sessionOf(request).user
      ? null
      : await oidc.endSession(`${client.origin()}/`).catch(insteadOf(ServiceError, null))
    if (url === null) return reply.redirect('/', 303)
    const head = html`<meta http-equiv="refresh" content="0; url=${url}">`
    const content = signedOutView(oidc.name, url)
    return sendPage(reply, { title: 'Signed out', head }, content)
  })
}
