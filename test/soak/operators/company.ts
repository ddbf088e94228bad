import tap from 'tap'
import { startProvider } from '../../helpers/oidc-provider.ts'
import { openPageClient } from '../../helpers/page-client.ts'

/** What people of the company do, with browsers in the network of the machine: `company.ts WHAT`. */
const SITE = 'https://status.example.org'
const [, , what] = process.argv

async function signInWithPassword() {
  const browser = openPageClient(SITE)
  const { status, headers } = await browser.signIn('alice', 'a good password')
  tap.same([status, headers.get('location')], [303, '/'])
  tap.match((await browser.get('/settings/tokens')).status, 200)
  const [cookie = ''] = headers.getSetCookie()
  tap.match(cookie, /; Secure/, 'the server knows that people use TLS')
}

async function signInWithCompany() {
  const issuer = 'https://id.example.org/realms/staff'
  const place = { issuer, port: 9000, clientSecret: 'the secret of the client' }
  // A proxy passes it what is below the path of the issuer.
  const provider = await startProvider(tap, SITE, {}, place)
  provider.accounts.set('dora', { groups: ['ci-users'] })
  for (const [account, page] of [
    ['dora', 200],
    ['eve', 403],
  ] as const) {
    const browser = openPageClient(SITE)
    const started = await browser.get('/login/oidc?next=/settings/tokens')
    tap.equal(started.status, 303, started.body)
    const callback = await provider.signIn(started.headers.get('location') ?? '', account)
    const { status, body } = await browser.get(callback.replace(SITE, ''))
    tap.equal(status, page === 200 ? 303 : page, `${account}: ${body}`)
    if (page === 200) tap.equal((await browser.get('/settings/tokens')).status, 200)
  }
}

if (what === 'password') await signInWithPassword()
else await signInWithCompany()
