import type { Session } from '../../../auth/session.ts'
import type { TokenInfo } from '../../../store/accounts/shown-tokens.ts'
import { replacedName } from '../../../store/accounts/tokens.ts'
import { csrfField, time } from '../../layout/layout.ts'
import { type Html, html } from '../../text/html.ts'
import { copyButton, shownText } from '../../text/text.ts'

/** What has come of the form that rotates a token. */
export interface Rotation {
  problem?: string
  /** The new secret, and when the old one stops working, in milliseconds since the epoch. */
  rotated?: { secret: string; oldExpiresAt: number }
}

/** Renders the confirmation before a token is revoked. */
export function revokeView(session: Session, token: TokenInfo): Html {
  return html`<div class="card narrow">
  <h1>Revoke “${shownText(token.name)}”?</h1>
  <p>The token <code>${token.prefix}…</code> stops working immediately in every job that uses it. This cannot be undone.</p>
  <form method="post" action="/settings/tokens/${token.id}/revoke">
    ${csrfField(session)}
    <div class="row"><button class="danger" type="submit">Revoke token</button><a href="/settings/tokens">Cancel</a></div>
  </form>
</div>`
}

/** Renders the confirmation before a token gets another secret, and then the secret. */
export function rotateView(session: Session, token: TokenInfo, { rotated, problem }: Rotation): Html {
  if (rotated)
    return html`<section class="card created" aria-labelledby="rotated" role="status">
  <h1 id="rotated">“${shownText(token.name)}” has a new secret</h1>
  <p>Copy it now. It will not be shown again.</p>
  <div class="copy"><code id="secret" tabindex="0">${rotated.secret}</code>
    ${copyButton('secret', 'the token')}</div>
  <p>The old secret works until ${time(new Date(rotated.oldExpiresAt).toISOString())}, as “${shownText(replacedName(token.name))}”.
    Revoke that one to stop it before.</p>
  <p><a href="/settings/tokens">All tokens</a></p>
</section>`
  return html`<div class="card narrow">
  <h1>Rotate “${shownText(token.name)}”?</h1>
  <p>The token gets a new secret and keeps its name and limits. It works for as long as it was created for. The old secret
    <code>${token.prefix}…</code> works for another day.</p>
  ${problem ? html`<p class="error" role="alert">${problem}</p>` : ''}
  <form method="post" action="/settings/tokens/${token.id}/rotate">
    ${csrfField(session)}
    <div class="row"><button type="submit">Rotate token</button><a href="/settings/tokens">Cancel</a></div>
  </form>
</div>`
}
