import tap, { type Test } from 'tap'
import { startProvider } from '../../helpers/oidc-provider.ts'
import { openPageClient } from '../../helpers/page-client.ts'

/** What people of the company do, with browsers in the network of the machine: `company.ts WHAT`. */
const SITE = 'https://status.example.org'
const [, , what] = process.argv

async function signInWithPassword(t: Test) {
  const browser = openPageClient(SITE)
  const { status, headers } = await browser.signIn('alice', 'a good password')
  t.same([status, headers.get('location')], [303, '/'])
  t.match((await browser.get('/settings/tokens')).status, 200)
  const [cookie = ''] = headers.getSetCookie()
  t.match(cookie, /; Secure/, 'the server knows that people use TLS')
}

async function signInWithCompany(t: Test) {
  const issuer = 'https://id.example.org/realms/staff'
  const place = { issuer, port: 9000, clientSecret: 'the secret of the client' }
  // A proxy passes it what is below the path of the issuer.
  const provider = await startProvider(t, SITE, {}, place)
  provider.accounts.set('dora', { groups: ['ci-users'] })
  for (const [account, page] of [
    ['dora', 200],
    ['eve', 403],
  ] as const) {
    const browser = openPageClient(SITE)
    const started = await browser.get('/login/oidc?next=/settings/tokens')
    t.equal(started.status, 303, started.body)
    const callback = await provider.signIn(started.headers.get('location') ?? '', account)
    const { status, body } = await browser.get(callback.replace(SITE, ''))
    t.equal(status, page === 200 ? 303 : page, `${account}: ${body}`)
    if (page === 200) t.equal((await browser.get('/settings/tokens')).status, 200)
  }
}

tap.test(`people sign in with ${what}`, what === 'password' ? signInWithPassword : signInWithCompany)
