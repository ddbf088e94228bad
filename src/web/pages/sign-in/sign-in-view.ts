import type { Session } from '../../../auth/session.ts'
import { shellQuote } from '../../../util/shell-quote.ts'
import { csrfField } from '../../layout/layout.ts'
import { type Html, html } from '../../text/html.ts'
import { shownText } from '../../text/text.ts'

/** The content of `/login`. */
export interface SignInView {
  session: Session
  /** Name of the OpenID Connect provider; undefined without one. */
  provider: string | undefined
  /** Whether people can sign in with passwords. */
  passwordSignIn: boolean
  /** Path to which the sign-in returns. */
  next: string
  /** The name that was entered, if a sign-in with a password failed. */
  name?: string
  /** Why a sign-in failed. */
  error?: string
}

export function signInView({ session, provider, passwordSignIn, next, name, error }: SignInView): Html {
  const describedBy = error ? html`aria-describedby="sign-in-error"` : null
  // What failed has the focus again, and screen readers announce the error with it.
  const [ofLink, ofForm] = name === undefined ? [describedBy, null] : [null, describedBy]
  // A link, because the policy for forms would stop the redirect to the provider.
  const link =
    provider &&
    html`<p><a class="button" href="/login/oidc?next=${encodeURIComponent(next)}" ${ofLink && html`${ofLink} autofocus`}>Sign in with ${provider}</a></p>`
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
  const accounts = provider
    ? 'Your first sign-in creates your account.'
    : 'An administrator creates accounts.'
  return html`<div class="card narrow">
  <h1>Sign in</h1>
  ${error ? html`<p class="error" id="sign-in-error" role="alert">${error}</p>` : ''}
  ${link}
  ${passwordSignIn ? form() : ''}
  <p class="hint">${accounts} CI jobs do not sign in; they use a token.</p>
</div>`
}

/**
 * Renders why the user of an OpenID Connect provider cannot sign in.
 *
 * @param provider its name
 * @param subject the provider's id of the user, if an administrator can link it
 */
export function refusedView(provider: string, message: string, subject: string | undefined): Html {
  return html`<div class="card narrow">
  <h1>You cannot sign in</h1>
  <p>${shownText(message)}</p>
  ${
    subject &&
    html`<p>Ask an administrator to link your account to a user:</p>
  <pre>user link NAME --subject ${shellQuote(subject)}</pre>`
  }
  <p><a href="/login/signed-out">Sign out of ${provider}</a> to use another account.</p>
</div>`
}

/** Renders the way to sign out of the provider too. */
export function signedOutView(provider: string, url: string): Html {
  return html`<div class="notice">
  <h1>Signed out</h1>
  <p><a href="${url}">Sign out of ${provider} too</a></p>
</div>`
}
