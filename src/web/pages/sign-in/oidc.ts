import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Oidc, Person } from '../../../auth/oidc.ts'
import { mayPass, oauthCode } from '../../../auth/provider-errors.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { ServiceError } from '../../../errors.ts'
import { connectionSignal } from '../../../http/connection-signal.ts'
import { insteadOf } from '../../../util/expected-errors.ts'
import { truncate } from '../../../util/truncate.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { sessionOf } from '../../session/session-auth.ts'
import { html } from '../../text/html.ts'
import { sentence } from '../../text/text.ts'
import { createAttempts } from './attempts.ts'
import { localPath, sendSignIn } from './sign-in-page.ts'
import { refusedView, signedOutView } from './sign-in-view.ts'

/** Code points of a reason, which contains the name that the provider gives. */
const MAX_MESSAGE = 300
/** Bytes of the largest ID token in a cookie, of which browsers keep 4,096 bytes. */
const MAX_ID_TOKEN = 3_500
const SIGNED_OUT = '/login/signed-out'

type Options = PageContext & { oidc: Oidc }

/** Registers what lies below `/login/`: the way to the provider, the way back, and the way out. */
export async function oidcPages(pages: Pages, options: Options): Promise<void> {
  const { sessionAuth, oidc } = options
  const attempts = createAttempts(sessionAuth, oidc)
  // Needed once, at the end of the session: so the browser alone keeps it, and sends it nowhere else.
  const idTokenCookie = sessionAuth.createCookie('id-token', SIGNED_OUT)

  pages.get<{ Querystring: Query<'next'> }>('/login/oidc', async (request, reply) => {
    const next = localPath(firstOf(request.query.next))
    const { url, secret } = await oidc.start()
    attempts.begin(request, reply, { secret, next })
    return reply.redirect(url, 303)
  })

  pages.get<{ Querystring: Query<'state' | 'error'> }>('/login/callback', async (request, reply) => {
    const { state, error } = request.query
    const attempt = attempts.take(request, reply, firstOf(state))
    // A callback that is loaded again has no attempt any more.
    if (!attempt && sessionOf(request).user) return reply.redirect('/', 303)
    const fail = (refusal = new ServiceError('sign_in_refused')) => {
      if (refusal.cause) pages.logError(request, refusal)
      const result = { next: attempt?.next ?? '/', error: refusal.message }
      return sendSignIn(request, reply.code(401), options, result)
    }
    // Not counted, like a form of another site: a foreign page can make a browser send this.
    if (!attempt) return fail()
    // Nor is this, for which the provider is not asked.
    if (firstOf(error)) return fail(refusedAnswer(oidc.name, firstOf(error)))
    const outcome = await signIn(request, reply, options, attempt.secret)
    if (outcome instanceof ServiceError) return fail(outcome)
    if ('idToken' in outcome) {
      const kept = outcome.idToken.length > MAX_ID_TOKEN ? '' : outcome.idToken
      idTokenCookie.set(request, reply, kept, kept === '' ? 0 : undefined)
      return reply.redirect(attempt.next, 303)
    }
    const { reason, message, subject, missing } = outcome
    if (missing) pages.logError(request, refused(message, missing))
    await sessionAuth.recordRefusal(request, oidc.issuer, reason)
    const content = refusedView(oidc.name, message, subject)
    return sendPage(reply.code(403), { title: 'You cannot sign in' }, content)
  })

  // A page, because the policy for forms would stop a redirect of the form that signs out.
  pages.get(SIGNED_OUT, async (request, reply) => {
    if (sessionOf(request).user) return reply.redirect('/', 303)
    const idToken = /^[\w-]+\.[\w-]+\.[\w-]+$/.exec(idTokenCookie.read(request) ?? '')?.[0]
    if (idToken !== undefined) idTokenCookie.set(request, reply, '', 0)
    const returnTo = `${request.client.origin()}/`
    const url = await oidc.endSession(returnTo, idToken).catch(insteadOf(ServiceError, null))
    if (url === null) return reply.redirect('/', 303)
    const head = html`<meta http-equiv="refresh" content="0; url=${url}">`
    const content = signedOutView(oidc.name, url)
    return sendPage(reply, { title: 'Signed out', head }, content)
  })
}

/** A person whom the provider knows and who may not sign in here. */
interface RefusedPerson {
  reason: 'claim' | 'name' | 'locked'
  message: string
  /** If an administrator can link it. */
  subject?: string
  /** For the log: what the provider did not send. */
  missing?: string | undefined
}

/** Somebody is signed in; else an error for the sign-in page, or what is wrong with the person. */
type Outcome = { idToken: string } | ServiceError | RefusedPerson

/** Asks the provider within the budget of the address, which bounds that and the events. */
async function signIn(
  request: FastifyRequest,
  reply: FastifyReply,
  options: Options,
  secret: string,
): Promise<Outcome> {
  const { address } = request.client
  const outcomes: Outcome[] = []
  const work = async () => {
    const outcome = await finish(request, reply, options, secret)
    outcomes.push(outcome)
    return 'idToken' in outcome || null
  }
  const signal = connectionSignal(request.raw.socket)
  await options.providerBudget.attempt(address, work, () => ({ at: 'sign-in' }), signal)
  const [outcome = new ServiceError('sign_in_refused')] = outcomes
  return outcome
}

async function finish(
  request: FastifyRequest,
  reply: FastifyReply,
  { store, sessionAuth, oidc }: Options,
  secret: string,
): Promise<Outcome> {
  const person = await oidc.finish(request.url.replace(/^[^?]*/, ''), secret)
  if ('refusedWith' in person)
    return refused(
      `${oidc.name} refused the sign-in (${person.refusedWith}). Start again.`,
      person.refusedWith,
    )
  if (!person.permitted) return withoutClaim(person, oidc)
  const { subject, name } = person
  try {
    const user = await store.users.findOrCreate(
      { issuer: oidc.issuer, subject },
      name,
      request.client.address,
    )
    if (await sessionAuth.signIn(request, reply, user, true)) return { idToken: person.idToken }
    if (user.lockedAt !== null)
      return { reason: 'locked', message: 'Your user is locked. Ask an administrator to unlock it.' }
    // Something was changed meanwhile, and the next attempt says what.
    return new ServiceError('sign_in_refused')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (name !== '')
      return { reason: 'name', message: sentence(truncate(error.message, MAX_MESSAGE)), subject }
    const message = `${oidc.name} does not tell your name: the claim "${oidc.nameClaim}" is missing, or no text.`
    return { reason: 'name', message, subject, missing: `no text in the claim ${oidc.nameClaim}` }
  }
}

function withoutClaim({ missing, overflowed }: Person, { name, requiredClaim }: Oidc): RefusedPerson {
  const claim = requiredClaim?.name ?? ''
  const needed = `You need ${claim}=${requiredClaim?.value} to sign in.`
  if (!missing.includes(claim))
    return { reason: 'claim', message: `${needed} Ask for it where your account at ${name} is managed.` }
  const why = overflowed ? `, because your account is in too many groups` : ''
  return {
    reason: 'claim',
    message: `${needed} ${name} did not send the claim "${claim}"${why}. An administrator must look at its settings.`,
    missing: `the claim ${claim} is missing${overflowed ? ': too many groups' : ''}`,
  }
}

/** Returns the error for an answer in which the provider refuses to sign in the person. */
function refusedAnswer(provider: string, error: string | undefined): ServiceError {
  const code = oauthCode(error)
  if (code === 'access_denied')
    return refused(`The sign-in was cancelled, or ${provider} does not permit it (access_denied).`, code)
  const advice = mayPass(code)
    ? 'Try again in a few seconds.'
    : 'An administrator must look: the log says what is wrong.'
  return refused(`${provider} refused the sign-in (${code ?? 'for an unknown reason'}). ${advice}`, code)
}

/** @param logged what the log says */
function refused(message: string, logged = 'an error that is no code'): ServiceError {
  const cause = new Error(`OpenID Connect provider: refused the sign-in, ${logged}`)
  return new ServiceError('sign_in_refused', message, { cause })
}
