import { createServer, request as forward } from 'node:http'
import type { BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openStore } from '../../src/store/store.ts'
import { HOST, openBrowser } from '../helpers/browser.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { postgres } from '../helpers/databases.ts'
import { listenLocally } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { startProvider } from '../helpers/oidc-provider.ts'

const browser = await openBrowser(t)

/** Starts a proxy that gives each request to the next server. */
async function startProxy(t: Test) {
  const servers: string[] = []
  const served = new Set<string>()
  let next = 0
  const proxy = createServer((request, response) => {
    const target = servers[next++ % servers.length] ?? ''
    served.add(target)
    const headers = {
      ...request.headers,
      'x-forwarded-for': request.socket.remoteAddress,
      'x-forwarded-proto': 'http',
      'x-forwarded-host': request.headers.host,
    }
    const upstream = forward(target + request.url, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    request.pipe(upstream)
  })
  const port = await listenLocally(proxy)
  t.teardown(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return { servers, served, url: `http://${HOST}:${port}` }
}

/** Fills in the form of the provider. */
async function signInThere(page: Page, name: string): Promise<void> {
  await page.fill('[name=login]', name)
  await page.fill('[name=password]', 'any')
  await page.click('[type=submit]')
}

t.test('two instances behind a proxy', async (t) => {
  const proxy = await startProxy(t)
  const provider = await startProvider(t, proxy.url)
  const openPage = (t: Test, options?: BrowserContextOptions) =>
    browser.openPage(t, [proxy.url, provider.issuer], options)
  const options = await postgres.create(t)
  const environment = {
    PUBLIC_URL: proxy.url,
    TRUSTED_PROXIES: '127.0.0.1',
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: provider.options.clientId,
    OIDC_CLIENT_SECRET: provider.options.clientSecret,
  }
  for (let count = 0; count < 2; count++)
    proxy.servers.push((await startInstance(t, options, environment)).url)
  const store = await openStore(options)
  t.teardown(() => store.close())

  for (const javaScript of [true, false]) {
    t.test(javaScript ? 'with JavaScript' : 'without JavaScript', async (t) => {
      const page = await openPage(t, { javaScriptEnabled: javaScript })
      const name = javaScript ? 'alice' : 'bob'
      await page.goto(`${proxy.url}/settings/tokens`)
      await page.click(`text=Sign in with ${new URL(provider.issuer).host}`)
      await signInThere(page, name)
      await page.waitForURL(`${proxy.url}/settings/tokens`)
      t.equal(await page.textContent('.menu summary'), name)
      t.equal(
        (await page.context().cookies()).find(({ name }) => name.startsWith('sign-in')),
        undefined,
      )
      await page.fill('#name', 'by hand')
      await page.click('text=Create token')
      t.match(await page.textContent('#secret'), /^cst_\w{38}$/)
      t.match(await page.textContent('main'), 'They stop working at')

      await page.click('.menu summary')
      await page.click('text=Sign out')
      await page.waitForURL(`${provider.issuer}/session/end?**`)
      await page.click('[value=yes]')
      await page.waitForURL(`${proxy.url}/`)
      t.equal(await page.locator('text=Sign out').count(), 0)
      t.equal(proxy.served.size, 2, 'both instances answered')
    })
  }

  t.test('a sign-in that was cancelled has the focus again, with the error', async (t) => {
    const page = await openPage(t)
    await page.goto(`${proxy.url}/login?next=/settings/account`)
    t.equal(await page.locator(':focus').getAttribute('id'), 'name')
    await page.click('text=Sign in with')
    await page.click('text=Cancel')
    await page.waitForURL(`${proxy.url}/login/callback?**`)
    const focused = page.locator(':focus')
    t.equal(await focused.textContent(), `Sign in with ${new URL(provider.issuer).host}`)
    const described = await focused.getAttribute('aria-describedby')
    t.match(await page.locator(`[id="${described}"][role=alert]`).textContent(), /was cancelled/)
    await page.keyboard.press('Enter')
    await signInThere(page, 'dora')
    await page.waitForURL(`${proxy.url}/settings/account`)
  })

  t.test('a name that exists', async (t) => {
    await asAdministrator(store).users.create('carol')
    const page = await openPage(t)
    await page.goto(`${proxy.url}/login?next=/settings/account`)
    await page.click('text=Sign in with')
    await signInThere(page, 'carol')
    t.equal(await page.textContent('h1'), 'You cannot sign in')
    t.match(await page.textContent('main'), /There is already a user "carol"\./)
    t.equal(await page.textContent('pre'), "user link NAME --subject 'carol'")
    await asAdministrator(store).users.link('carol', { issuer: `${provider.issuer}/`, subject: 'carol' })
    await page.goto(`${proxy.url}/login?next=/settings/account`)
    await page.click('text=Sign in with')
    await page.waitForURL(`${proxy.url}/settings/account`)
    t.equal(await page.textContent('.menu summary'), 'carol')
  })
})
