import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { createClient } from '../../clients/typescript/src/index.ts'
import { tryGit } from '../git-http/client.ts'
import { HOST, openBrowser, tabTo } from '../helpers/browser.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { git, importCommits } from '../helpers/git.ts'
import { createAccount, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { AXE, checkLooks, checkWidth } from './looks.ts'
import { SMALL_TARGETS } from './small-targets.ts'

const server = await startServer(t, { budget: { limit: 1000, window: 300 } })
const browser = await openBrowser(t)
const url = server.url.replace('127.0.0.1', HOST)
await createAccount(server, 'alice')

const openPage = (t: Test, options?: BrowserContextOptions) => browser.openPage(t, [url], options)

async function signIn(page: Page) {
  await page.goto(`${url}/settings/tokens`)
  await page.fill('#name', 'alice')
  await page.fill('#password', PASSWORD)
  await page.click('main button[type=submit]')
  await page.waitForURL(`${url}/settings/tokens`)
}

/** Creates a checkout with one commit. */
function checkout(t: Test, message = 'Build the engine') {
  const folder = temporaryFolder(t)
  git(folder, 'init', '--quiet', '--initial-branch=main')
  git(folder, 'commit', '--quiet', '--allow-empty', '--message', message)
  return { folder, sha: git(folder, 'rev-parse', 'HEAD') }
}

t.test('a user creates a token, and it works everywhere until it is revoked', async (t) => {
  await server.createRepository('alice/rocket', { commits: 0, private: true })
  const { folder, sha } = checkout(t)
  const page = await openPage(t)
  const context = page.context()
  await page.goto(`${url}/alice/rocket`)
  t.equal(await page.title(), 'Sign in · Commit Status', 'a private repository requires sign-in')
  await page.fill('#name', 'alice')
  await page.fill('#password', 'wrong horse')
  await page.click('main button[type=submit]')
  t.equal(await page.textContent('[role=alert]'), 'Wrong name or password.')
  await page.fill('#password', PASSWORD)
  await page.click('main button[type=submit]')
  t.equal(await page.textContent('h1'), 'alice / rocket private', 'sign-in returns to the requested page')
  t.match(await page.textContent('.empty'), 'Nothing has been pushed yet.')
  t.match(await page.textContent('#work'), /^commit-status work --repo \S+ --context ci\/all -- \.\/ci\.sh$/)

  await page.click('.menu summary')
  await page.click('text=Tokens')
  t.match(await page.textContent('.empty'), 'You have no tokens.')
  await page.fill('#name', 'CI of rocket')
  await page.selectOption('#expiry', '30')
  await page.click('text=Create token')
  const secret = (await page.textContent('#secret')) ?? ''
  t.match(secret, /^cst_\w{38}$/)
  await page.click('[data-copy=secret]')
  t.equal(await page.textContent('[data-copy=secret]'), 'Copied')
  await page.focus('#name')
  await page.keyboard.press('Control+V')
  t.equal(await page.inputValue('#name'), secret, 'the copied text is the token')

  const clone = `${server.url}/alice/rocket.git`
  const credential = { username: 'alice', password: secret }
  const pushed = await tryGit(folder, ['push', '--quiet', clone, 'HEAD:main'], { credential })
  t.equal(pushed.code, 0, pushed.stderr)
  const client = createClient({ baseUrl: server.url, token: secret })
  const commit = { owner: 'alice', repo: 'rocket', sha }
  const target_url = 'https://ci.example.org/jobs/1'
  const body = { context: 'ci/build', state: 'success', description: 'Built in 41 s', target_url } as const
  t.equal((await client.reportStatus({ ...commit, body })).status, 201)

  await page.goto(`${url}/alice/rocket`)
  t.match(await page.textContent('.history li'), /success\s+Build the engine/)
  await page.click('text=Build the engine')
  t.match(await page.textContent('.facts'), /success\s+1 passed/)
  t.equal(await page.textContent('.sha'), sha)
  t.match(await page.textContent('.rows li'), /success\s+ci\/build\s+Built in 41 s\s+just now/)
  t.equal(await page.getAttribute('.rows a', 'href'), target_url)

  await page.goto(`${url}/settings/tokens`)
  t.equal(await page.locator('#secret').count(), 0, 'the token is shown only once')
  await page.click('text=Revoke')
  t.equal(await page.textContent('h1'), 'Revoke “CI of rocket”?')
  t.equal((await client.listStatuses(commit)).status, 200, 'nothing is revoked before confirmation')
  await page.click('text=Revoke token')
  await page.waitForURL(`${url}/settings/tokens`)
  t.equal((await client.listStatuses(commit)).status, 401)
  const refused = await tryGit(folder, ['ls-remote', clone], { credential })
  t.match(refused.stderr, 'Authentication failed')

  const [cookie] = await context.cookies()
  t.match(cookie, { name: 'session', httpOnly: true, sameSite: 'Lax', expires: -1 })
  await page.click('.menu summary')
  await page.click('text=Sign out')
  await page.waitForURL(`${url}/`)
  if (cookie) await context.addCookies([cookie])
  await page.goto(`${url}/settings/tokens`)
  t.equal(await page.title(), 'Sign in · Commit Status', 'sign-out invalidates the cookie')
})

t.test('a repository among many is found with the keyboard, with and without JavaScript', async (t) => {
  const { kysely } = server.store.engine
  for (let team = 0; team < 4; team++) {
    const { id, path } = await server.createRepository(`team${team}/service-${team}`, { commits: 0 })
    const row = kysely.selectFrom('repositories').selectAll().where('id', '=', id)
    const { id: _, ...values } = await row.executeTakeFirstOrThrow()
    const names = Array.from({ length: 50 }, (_, index) => `service-${team + 4 * (index + 1)}`)
    // All in the files of the first.
    const rows = names.map((name) => ({ ...values, name, name_key: name, path }))
    await kysely.insertInto('repositories').values(rows).execute()
  }
  for (const javaScriptEnabled of [true, false]) {
    const page = await openPage(t, { viewport: { width: 360, height: 800 }, javaScriptEnabled })
    await page.addInitScript(AXE)
    const check = async (what: string) => {
      if (javaScriptEnabled) await checkLooks(t, page, what)
    }
    const rows = page.locator('.rows li')
    await page.goto(url)
    await check('home')
    t.ok((await rows.count()) < 204, 'the first ones')
    await tabTo(t, page, '[role=search] input')
    await page.keyboard.type('team3/service-10')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/?q=team3%2Fservice-10')
    await check('found')
    t.same(await rows.locator('a:nth-child(2)').allTextContents(), ['service-103', 'service-107'])
    await tabTo(t, page, 'a:has-text("service-107")')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/team3/service-107')

    await page.goto(`${url}/team3`)
    t.equal(await page.textContent('h1'), 'Repositories of team3')
    await check('an owner')
    t.equal(await rows.count(), 51)
    await page.goto(`${url}/?q=nothing`)
    t.match(await page.textContent('.empty'), 'No repository that you may see')
    await check('nothing found')
  }
})

t.test('the commands shown with a new token work unchanged', async (t) => {
  const { commits } = await server.createRepository('alice/example')
  const page = await openPage(t)
  await signIn(page)
  await page.fill('#name', 'by hand')
  await page.click('text=Create token')
  const command = (await page.textContent('#example')) ?? ''
  const { stdout } = await promisify(execFile)('sh', ['-c', command.replace(url, server.url)])
  t.match(JSON.parse(stdout), { state: 'success', context: 'hello', sha: commits[0] })
  await page.click('text=recipe for your CI system')
  t.equal(new URL(page.url()).pathname, '/docs/recipes')
})

t.test('everything works without JavaScript', async (t) => {
  const page = await openPage(t, { javaScriptEnabled: false })
  await signIn(page)
  await page.fill('#name', 'plain')
  await page.selectOption('#expiry', 'date')
  await page.click('text=Create token')
  t.equal(await page.inputValue('#name'), 'plain', 'the form keeps its values')
  t.equal(await page.textContent('#date-error'), 'Choose the expiry date.')
  t.equal(await page.getAttribute('#date', 'aria-describedby'), 'date-error')
  await page.fill('#date', '2099-12-31')
  await page.click('text=Create token')
  t.match(await page.textContent('#secret'), /^cst_/)
  t.equal(await page.isVisible('[data-copy]'), false, 'no button without function')
  const row = page.locator('tbody tr', { hasText: 'plain' })
  t.match(await row.textContent(), '2099-12-31 00:00 UTC')
  await row.locator('a.danger').click()
  await page.click('text=Revoke token')
  t.equal(await page.locator('tbody tr', { hasText: 'plain' }).count(), 0)
  await page.goto(`${url}/docs`)
  t.match(await page.textContent('noscript, .empty'), 'requires JavaScript')
  t.ok(await page.isVisible('#operation-reportStatus'), 'the operations are there')
})

t.test('a group is administered with and without JavaScript', async (t) => {
  for (const javaScriptEnabled of [true, false]) {
    const group = javaScriptEnabled ? 'crew' : 'plain'
    await createAccount(server, `lead-${group}`)
    await createAccount(server, `dev-${group}`)
    await asAdministrator(server.store).groups.create(group)
    const { id } = await server.store.users.get(`lead-${group}`)
    await asAdministrator(server.store).members.set(group, id, 'admin')
    const page = await openPage(t, { javaScriptEnabled })
    const says = async (path: string, message: string) => {
      await page.waitForURL(url + path)
      t.equal(await page.textContent('[role=status]'), message)
    }
    await page.goto(`${url}/login`)
    await page.fill('#name', `lead-${group}`)
    await page.fill('#password', PASSWORD)
    await page.click('main button[type=submit]')

    await page.goto(`${url}/${group}`)
    await page.fill('#user', 'nobody')
    await page.click('text=Add member')
    t.equal(await page.textContent('#user-error'), 'There is no user "nobody".')
    t.equal(await page.inputValue('#user'), 'nobody', 'the form keeps its values')
    await page.fill('#user', `dev-${group}`)
    await page.click('text=Add member')
    await says(`/${group}`, `dev-${group} may write to all repositories of ${group} now.`)
    await page.click('text=New repository')
    await page.fill('#name', 'rocket')
    await page.click('main button[type=submit]')
    await says(`/${group}/rocket`, `Created ${group}/rocket, which is public.`)
    // No script touches the forms that follow.
    if (javaScriptEnabled) continue
    await page.click('main a:has-text("Settings")')
    await page.selectOption('#visibility', 'private')
    await page.click('text=Change visibility')
    await says(`/${group}/rocket/settings`, `${group}/rocket is private now.`)

    await page.click('nav >> text=Access')
    await page.fill('#user', `dev-${group}`)
    await page.selectOption('#access', 'read')
    await page.click('main button:has-text("Give access")')
    await says(`/${group}/rocket/settings/access`, `dev-${group} may read ${group}/rocket now.`)
    const rows = page.locator('tbody tr')
    t.match(await rows.nth(0).textContent(), new RegExp(`write\\s*is a member of ${group}`))
    t.match(await rows.nth(1).textContent(), /read\s*was given access/)
    await page.selectOption('tbody select', 'none')
    await page.click('tbody button')
    await says(`/${group}/rocket/settings/access`, `dev-${group} was removed from ${group}/rocket.`)

    await page.click('nav >> text=Rules')
    await page.fill('#branch', 'main')
    await page.fill('#required', 'ci/test')
    await page.click('text=Preview')
    t.match(await page.textContent('[aria-labelledby=preview]'), 'There are no commits.')
    await page.click('text=Save rule')
    await says(`/${group}/rocket/settings/checks`, 'Saved the rule for main (no branch matches yet).')
    await page.fill('#pattern', 'ci/*')
    await page.fill('#users', `lead-${group}`)
    await page.click('text=Reserve contexts')
    await says(`/${group}/rocket/settings/checks`, 'Reserved ci/*.')
    const actions = page.locator('.card .action form')
    const [whole, button] = [await actions.boundingBox(), await actions.locator('button').boundingBox()]
    t.equal(whole?.height, button?.height, 'the actions of a row are in one line')
    await page.click('nav >> text=Settings')
    await page.click('nav >> text=Events')
    t.equal(await page.locator('tbody tr').count(), 6)
    await page.click('nav >> text=General')
    const headings = []
    for (const card of await page.locator('section.card').all()) {
      const [outer, heading] = [await card.boundingBox(), await card.locator('h2').boundingBox()]
      headings.push((heading?.y ?? 0) - (outer?.y ?? 0))
    }
    t.equal(new Set(headings).size, 1, 'the headings of all cards have the same place')
    await page.fill('#name', 'moon')
    await page.click('text=Rename or move')
    const renamed = `${group}/rocket is ${group}/moon now. The name before is reserved.`
    await says(`/${group}/moon/settings`, renamed)
    await page.fill('#confirm', 'moon')
    await page.click('text=Delete repository')
    t.equal(await page.textContent('#confirm-error'), `Type ${group}/moon.`)
    await page.fill('#confirm', `${group}/moon`)
    await page.click('text=Delete repository')
    await says('/', `${group}/moon was deleted.`)
    await page.goto(`${url}/${group}`)
    await page.click('button:has-text("Release")')
    await says(`/${group}`, `${group}/rocket is not reserved any more.`)
  }
})

t.test('everything works with the keyboard alone', async (t) => {
  const page = await openPage(t)
  await page.goto(`${url}/login?next=/settings/tokens`)
  await page.waitForSelector('#name:focus')
  await page.keyboard.type('alice')
  await tabTo(t, page, '#password')
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await page.waitForURL(`${url}/settings/tokens`)

  await page.keyboard.press('Tab')
  t.equal(await page.textContent(':focus'), 'Skip to content')
  const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle')
  t.equal(outline, 'solid', 'the focus is visible')
  await page.keyboard.press('Enter')
  await tabTo(t, page, '#name')
  await page.keyboard.type('keys')
  await tabTo(t, page, 'input[type=checkbox]')
  await page.keyboard.press('Space')
  await tabTo(t, page, '#expiry')
  await page.keyboard.type('never')
  await tabTo(t, page, 'main button[type=submit]')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#secret')
  t.match(await page.locator('tbody tr', { hasText: 'keys' }).textContent(), /none[\s\S]*never[\s\S]*never/)
  await tabTo(t, page, 'tbody a.danger')
  await page.keyboard.press('Enter')
  await page.waitForSelector('button.danger')
  await tabTo(t, page, 'button.danger')
  await page.keyboard.press('Enter')
  await page.waitForURL(`${url}/settings/tokens`)
  await tabTo(t, page, '.menu summary')
  await page.keyboard.press('Enter')
  await tabTo(t, page, '.menu a')
  await page.keyboard.press('Escape')
  t.equal(await page.locator('.menu[open]').count(), 0, 'Escape closes the menu')
  t.equal(await page.locator('.menu summary:focus').count(), 1, 'and its button has the focus again')
  await page.keyboard.press('Enter')
  t.equal(await page.locator('.menu[open]').count(), 1)
  await page.click('h1')
  t.equal(await page.locator('.menu[open]').count(), 0, 'so does a click elsewhere')
  await tabTo(t, page, '.menu summary')
  await page.keyboard.press('Enter')
  await tabTo(t, page, '.menu button')
  await page.keyboard.press('Enter')
  await page.waitForURL(`${url}/`)
})

t.test('the API ignores sessions, and pages ignore tokens, in the browser too', async (t) => {
  const { commits } = await server.createRepository('alice/both', { private: true })
  const page = await openPage(t)
  await signIn(page)
  const path = `/api/v1/repos/alice/both/commits/${commits[0]}/statuses`
  const ask = (path: string, token?: string) =>
    page.evaluate(
      async ([path = '', token]) => {
        const { status, url } = await fetch(path, {
          headers: { ...(token && { authorization: `Bearer ${token}` }) },
        })
        return { status, path: new URL(url).pathname }
      },
      [path, token],
    )
  t.equal((await ask('/alice/both')).status, 200)
  t.equal((await ask(path)).status, 401)
  const token = await server.createToken('alice')
  t.equal((await ask(path, token)).status, 200)

  const other = await openPage(t, { extraHTTPHeaders: { authorization: `Bearer ${token}` } })
  for (const where of ['/alice/both', '/settings/tokens']) {
    await other.goto(url + where)
    t.equal(await other.title(), 'Sign in · Commit Status', where)
  }
})

const MARKUP = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}'
/** Author names cannot contain angle brackets. */
const AUTHOR = 'x" onmouseover="alert(3)" y'

t.test('markup from others is shown as text', async (t) => {
  const { id, path } = await server.createRepository('alice/markup', { commits: 0 })
  const { folder, sha } = checkout(t, MARKUP)
  git(folder, 'commit', '--quiet', '--allow-empty', '--amend', '--no-edit', `--author=${AUTHOR} <a@b>`)
  const commit = git(folder, 'rev-parse', 'HEAD')
  t.not(commit, sha)
  git(folder, 'push', '--quiet', path, 'HEAD:main')
  const token = await server.createToken('alice')
  const body = {
    state: 'failure',
    context: MARKUP,
    description: `${MARKUP}\u202e`,
  }
  const target_url = 'https://ci.example.org/"onclick="alert(4)'
  t.equal((await server.report('alice/markup', commit, { ...body, target_url }, token)).status, 201)
  for (const wrong of [
    'javascript:alert(5)',
    'JavaScript://x/%0Aalert(5)',
    'data:text/html,<script>alert(5)</script>',
  ]) {
    t.equal((await server.report('alice/markup', commit, { ...body, target_url: wrong }, token)).status, 422)
    // As if it had been stored nonetheless.
    const status = { context: wrong, state: 'success', description: null, target_url: wrong } as const
    await server.store.statuses.report({ repositoryId: id, sha: commit, ...status })
  }

  const page = await openPage(t)
  await signIn(page)
  await page.fill('#name', MARKUP)
  await page.click('text=Create token')
  t.match(await page.textContent('#created'), MARKUP)
  await page.click(`tbody tr:has-text("onerror") a.danger`)
  t.match(await page.textContent('h1'), MARKUP)
  await page.goto(`${url}/alice/markup`)
  t.equal(await page.textContent('.history li a'), MARKUP)
  await page.hover('.history .faint')
  await page.click('.history li a')
  t.match(await page.textContent('main'), AUTHOR)
  t.match(await page.textContent('.rows'), MARKUP)
  t.same(
    await page.locator('.rows a').evaluateAll((links) => links.map((link) => link.getAttribute('href'))),
    ['https://ci.example.org/%22onclick=%22alert(4)'],
  )
  t.equal(await page.getAttribute('.rows a', 'rel'), 'nofollow')
  await page.goto(`${url}/login?next=javascript:alert(6)`)
  t.equal(page.url(), `${url}/`)
  t.equal(await page.locator('main script, main img, [onclick], [onmouseover], [onerror]').count(), 0)
})

/** Makes a user the admin of a group with a repository, another member and a reserved name. */
async function administer(group: string, name: string) {
  const { store } = server
  await asAdministrator(store).groups.create(group)
  await asAdministrator(store).members.set(group, (await store.users.get(name)).id, 'admin')
  const [writer, reader] = ['x'.repeat(60), 'y'.repeat(60)]
  const writerId = await createAccount(server, writer)
  const readerId = await createAccount(server, reader)
  await asAdministrator(store).members.set(group, writerId, 'write')
  const before = { owner: group, name: 'before' }
  const { id, commits } = await server.createRepository(`${group}/before`, { commits: 2 })
  const repository = { owner: group, name: 'rocket' }
  await asAdministrator(store).repositories.rename(before, repository)
  const context = `ci/${'x'.repeat(80)}`
  const status = { state: 'success', description: null, target_url: null } as const
  await store.statuses.report({ repositoryId: id, sha: commits[0] ?? '', context, ...status })
  const rule = { refPattern: 'main', required: [context, 'lint/*'], bypass: [] }
  await asAdministrator(store).rules.set({ id, ...repository }, rule)
  await asAdministrator(store).collaborators.set(repository, readerId, 'read')
  const reporters = [
    { id: writerId, name: writer },
    { id: readerId, name: reader },
  ]
  await asAdministrator(store).reservations.set(repository, `ci/*${'x'.repeat(70)}`, reporters)
}

t.test('every page fits its window and is accessible', async (t) => {
  const { commits } = await server.createRepository('alice/looks', { commits: 2 })
  const [reported = '', silent = ''] = commits
  await server.createRepository('alice/nothing', { commits: 0 })
  const token = await server.createToken('alice')
  for (const state of ['success', 'failure', 'error', 'pending']) {
    const body = { state, context: `ci/${state}/${'x'.repeat(80)}`, description: 'y'.repeat(200) }
    await server.report('alice/looks', reported, body, token)
  }
  await createAccount(server, 'newcomer')
  const limits = { repositories: [1], contexts: ['ci/*', 'x'.repeat(40)], push: false }
  const used = await server.createToken('newcomer', { name: 'CI', expiresAt: Date.now() + 1e9, limits })
  await server.read('alice/looks', reported, used)
  const page = await openPage(t, {
    viewport: { width: 320, height: 640 },
    isMobile: true,
    hasTouch: true,
  })
  await page.addInitScript(AXE)
  const small = (text: string, style = '') =>
    `<button style="all: unset; font: 9px/9px serif; ${style}">${text}</button>`
  await page.setContent(`${small('one')} ${small('two')}<hr>${small('far')}<hr>${small('large', 'padding: 9px')}
    <p>A sentence with <a href="#">a link</a> and <a href="#">another</a></p>`)
  const targets = await page.evaluate<string[]>(SMALL_TARGETS)
  t.same(
    targets.map((target) => target.split(' of ')[0]),
    ['BUTTON. "one"', 'BUTTON. "two"'],
    'what is too small is found',
  )
  const [narrow, wide] = await page.evaluate<number[]>(`['iiii', 'MMMM'].map((text) => {
    const context = document.createElement('canvas').getContext('2d')
    context.font = '20px monospace'
    return context.measureText(text).width
  })`)
  t.equal(narrow, wide, 'the browser has a monospaced font')
  const check = (what: string) => checkLooks(t, page, what)
  const visit = async (path: string) => {
    await page.goto(url + path)
    await check(path)
  }
  // Of pages that show the same, only the one that shows most: of `/login`, the one with an error. An error
  // page has a link to sign in only here.
  for (const path of ['/alice/missing', '/docs/reference', '/docs/recipes?file=mirror', '/docs/client'])
    await visit(path)
  await page.goto(`${url}/login`)
  await page.fill('#name', 'newcomer')
  await page.fill('#password', 'wrong horse')
  await page.click('main button[type=submit]')
  await page.waitForSelector('[role=alert]')
  await check('failed sign-in')
  await page.fill('#password', PASSWORD)
  await page.click('main button[type=submit]')
  await administer('acme', 'newcomer')
  for (const end of ['', '/rocket/settings', '/rocket/settings/access']) await visit(`/acme${end}`)
  await page.goto(`${url}/acme/rocket/settings/checks`)
  await page.click('#reporters ~ * summary')
  await check('results of others')
  await visit('/settings/repositories/new')
  await visit('/acme/rocket/settings/events')
  const phone = page.viewportSize()
  await page.setViewportSize({ width: 768, height: 1024 })
  await checkWidth(t, page, 'events on a tablet')
  for (const key of ['Tab', 'Enter', 'Tab', 'Enter', 'Tab']) await page.keyboard.press(key)
  t.equal(await page.getAttribute(':focus', 'id'), 'kind', 'five keys lead to the events')
  if (phone) await page.setViewportSize(phone)
  await visit('/settings/account')
  await visit('/settings/tokens?repository=acme/rocket')
  await page.goto(`${url}/settings/tokens`)
  await page.fill('#name', ' ')
  await page.selectOption('#expiry', 'date')
  await page.click('text=Create token')
  await page.waitForSelector('#date-error')
  await check('a form with errors')
  await page.fill('#name', 'x'.repeat(100))
  await page.selectOption('#expiry', 'none')
  await page.click('text=Create token')
  await page.waitForSelector('#secret')
  await check('a new token')
  await page.click('tbody a.danger')
  await page.waitForSelector('button.danger')
  await check('revoke?')
  await page.click('button.danger')
  await page.waitForURL(`${url}/settings/tokens`)
  for (const path of [
    '/',
    '/alice/looks',
    '/alice/looks?ref=none',
    '/alice/nothing',
    `/alice/looks/commits/${reported}`,
    `/alice/looks/commits/${silent}`,
    '/alice/looks/commits/short',
    '/alice/missing',
  ])
    await visit(path)
})

t.test(
  'the first screen of a repository says what is green and what broke, with the keyboard alone',
  async (t) => {
    const { path } = await server.createRepository('alice/answers', { commits: 0 })
    const token = await server.createToken('alice')
    const commits = importCommits(path, 40)
    const head = commits.at(-1) ?? ''
    const old = commits[5] ?? ''
    for (const [index, name] of ['main', 'mine', 'x/y', 'a', 'b', 'c', 'd', 'e', 'f'].entries())
      git(path, 'update-ref', `refs/heads/${name}`, commits.at(-1 - index) ?? '')
    git(path, 'update-ref', 'refs/heads/zz/old', old)
    for (const context of ['ci/linux', 'ci/mac', 'ci/unit', 'ci/web', 'ci/win'])
      await server.report('alice/answers', head, { context, state: 'failure' }, token)
    await server.report(
      'alice/answers',
      commits.at(-2) ?? '',
      { context: 'ci/unit', state: 'pending' },
      token,
    )
    await server.report('alice/answers', old, { context: 'ci/unit', state: 'success' }, token)
    for (const system of ['linux', 'mac', 'windows'])
      await server.report(
        'alice/answers',
        commits.at(-5) ?? '',
        { context: `ci/integration-tests-on/${system}`, state: 'failure' },
        token,
      )
    for (const [width, height] of [
      [1280, 860],
      [390, 800],
    ] as const) {
      const page = await openPage(t, { viewport: { width, height }, javaScriptEnabled: false })
      const inView = async (selector: string, text: RegExp) => {
        const element = page.locator(selector).first()
        t.match((await element.textContent())?.replace(/\s+/g, ' '), text)
        const box = await element.boundingBox()
        t.ok(
          box && box.y + box.height <= height,
          `${selector} ends at ${box && box.y + box.height} of ${height} px`,
        )
      }
      await page.goto(`${url}/alice/answers`)
      await inView('.tip', /failure main · 5 failed: ci\/linux, ci\/mac, ci\/unit and 2 more/)
      await inView('.ref:has-text("mine")', /pending mine/)
      await inView('h2#commits', /Commits of main/)
      if (width > 1000) await inView('.history li', /Commit 39/)
      const heights = await page.evaluate<number[]>(
        "[...document.querySelectorAll('.history li')].map((row) => row.offsetHeight)",
      )
      t.ok(
        Math.max(...heights) - Math.min(...heights) <= 2,
        `commits have as many lines, whatever failed: ${heights} px`,
      )
      await page.goto(url)
      const start = page.locator('.rows li', { hasText: 'answers' })
      t.match(await start.textContent(), /failure\s+alice \/\s+answers\s+5 failed: ci\/linux/)

      await page.goto(`${url}/alice/answers`)
      await tabTo(t, page, '#find')
      await page.keyboard.type('Z/OL')
      await page.keyboard.press('Enter')
      await page.waitForURL(`${url}/alice/answers?ref=zz/old`)
      await inView('.tip', /success zz\/old · 1 passed/)
      await page.goto(`${url}/alice/answers`)
      await tabTo(t, page, '.refs summary')
      await page.keyboard.press('Enter')
      t.ok(await page.locator('.ref:has-text("zz/old")').isVisible(), 'further branches unfold')
      await tabTo(t, page, 'a[rel=next]')
      await page.keyboard.press('Enter')
      await page.waitForURL(/after=/)
      t.equal(await page.locator('.history li').count(), 10)
      t.equal(await page.locator('a[rel=next]').count(), 0)
    }
  },
)

/** Holds what a page requests by a path. Returns a function that releases it. */
async function hold(page: Page, path: string): Promise<() => void> {
  const released = Promise.withResolvers<void>()
  await page.route(path, async (route) => {
    await released.promise
    await route.continue()
  })
  return released.resolve
}

/** Checks that the first operation is on the first screen, tries the API, and checks the tables. */
async function checkConsole(t: Test, page: Page, isMobile: boolean) {
  const { width = 0, height = 0 } = page.viewportSize() ?? {}
  const { commits } = await server.createRepository(`alice/tried-${width}`, { private: true })
  const box = await page.locator('#docs .opblock').first().boundingBox()
  t.ok(box && box.y + box.height <= height, `the first operation ends at ${box && box.y + box.height} px`)
  if (!isMobile) t.ok(await page.isVisible('text=curl -X POST'), 'the commands are unfolded')
  for (const link of await page.locator('.clients a').all()) {
    const { status } = await fetch(server.url + (await link.getAttribute('href')))
    t.equal(status, 200, (await link.textContent()) ?? '')
  }
  t.equal(await page.locator('.opblock-get [aria-label*="No token is needed"]').count(), 5)
  await page.click('.btn.authorize')
  t.equal(await page.locator('.auth-container input').count(), 1)
  const token = await server.createToken('alice')
  await page.fill('.auth-container input', token)
  await page.click('.btn.auth:has-text("Authorize")')
  await page.click('.btn-done')

  await page.click('#docs details.about summary')
  t.ok(await page.isVisible('#docs details.about p'), 'the description is one click away')
  const colors = await page.evaluate<string[]>(
    "[document.querySelector('#docs details.about code'), document.body].map((part) => getComputedStyle(part).color)",
  )
  t.equal(colors[0], colors[1], 'code has the color of the site')
  await page.click('#docs details.about summary')

  await page.locator('#docs .opblock-summary-control').first().click()
  await page.waitForSelector('#docs .responses-table .headers')
  await page.click('.opblock-post .try-out__btn')
  const prefilled = []
  for (const value of ['started', 'passed']) {
    await page.selectOption('.opblock-post .opblock-section-request-body .examples-select select', value)
    const body = await page.inputValue('.opblock-post .body-param__text')
    prefilled.push(JSON.parse(body).context)
  }
  t.same(prefilled, ['try-it-out', 'try-it-out'])
  await page.click('.opblock-post .try-out__btn.cancel')
  if (!isMobile) {
    await page.locator('.opblock-get .opblock-summary-control').first().click()
    await page.click('.opblock-get .try-out__btn')
    t.equal(await page.locator('[data-param-name="If-None-Match"] input').inputValue(), '')
    for (const [name, value] of Object.entries({
      owner: 'alice',
      repo: `tried-${width}`,
      sha: commits[0] ?? '',
    }))
      await page.fill(`.opblock-get [data-param-name="${name}"] input`, value)
    await page.click('.opblock-get .btn.execute')
    await page.waitForSelector('.opblock-get .live-responses-table .response-col_status')
    t.match(await page.textContent('.live-responses-table .response .response-col_status'), /^200/)
    t.match(
      await page.textContent('.live-responses-table .response'),
      '"statuses": []',
      'of a private repository',
    )
    t.match(await page.textContent('.opblock-get .curl-command'), `Authorization: Bearer ${token}`)
    await page.locator('.opblock-get .opblock-summary-control').first().click()
  }
  const widths = await page.evaluate<number[]>(
    "[...document.querySelectorAll('#docs .headers td')].map((cell) => cell.getBoundingClientRect().width)",
  )
  t.ok(widths.length > 0)
  const cut = await page.evaluate<string[]>(
    "[...document.querySelectorAll('#docs :is(table, pre, .opblock-body)')].filter((part) => part.scrollWidth > part.clientWidth + 1).map(({ className }) => className)",
  )
  t.same(cut, [], `nothing is cut in a window of ${width} px`)
  t.ok(Math.min(...widths) >= 30, `columns of at least ${Math.min(...widths)} px in a window of ${width} px`)
}

t.test('on a slow network the API docs show the operations first', async (t) => {
  const page = await openPage(t, { viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true })
  await page.addInitScript(AXE)
  const release = await hold(page, '**/swagger-ui-bundle.js*')
  const devTools = await page.context().newCDPSession(page)
  // Slow 3G: 400 kbit/s, and 400 ms for each round trip.
  const slow = { downloadThroughput: 50_000, uploadThroughput: 50_000, latency: 400, offline: false }
  await devTools.send('Network.emulateNetworkConditions', slow)
  await page.goto(`${url}/docs`, { waitUntil: 'commit' })
  await page.waitForSelector('#operation-reportStatus')
  const shownAfter = await page.evaluate<number>('performance.now()')
  t.ok(shownAfter < 20_000, `${Math.round(shownAfter)} ms`)
  // Two seconds of this network, however busy the machine is.
  const received = await page.evaluate<number>(
    'performance.getEntries().reduce((sum, { transferSize = 0 }) => sum + transferSize, 0)',
  )
  t.ok(received > 10_000 && received < 100_000, `${received} bytes`)
  const fast = { downloadThroughput: -1, uploadThroughput: -1, latency: 0, offline: false }
  await devTools.send('Network.emulateNetworkConditions', fast)
  await page.locator('a[href="#operation-getVerdict"]').click()
  await until(() => page.evaluate<boolean>('scrollY > 0'))
  release()
  await until(() => page.evaluate<boolean>('window.SwaggerUIBundle !== undefined'))
  await checkLooks(t, page, 'operations')
  t.equal(await page.locator('#docs .opblock').count(), 0, 'whoever reads is not interrupted')
  await page.evaluate('scrollTo(0, 0)')
  await page.waitForSelector('#docs .opblock')
  t.equal(await page.locator('#reference').count(), 0, 'the console has the same')
  // To load the console takes seconds, so that this page is used for all that phones show.
  await page.setViewportSize({ width: 360, height: 800 })
  await checkConsole(t, page, true)
  await checkLooks(t, page, 'docs')
})

t.test('the API docs show the first operation on the first screen, and readable tables', async (t) => {
  /** Opens the docs, whose assets arrive when they are released. */
  const open = async (options: BrowserContextOptions) => {
    const page = await openPage(t, options)
    const release = await hold(page, '**/assets/*')
    await page.goto(`${url}/docs`, { waitUntil: 'commit' })
    await until(() => page.evaluate("performance.getEntriesByName('first-contentful-paint').length > 0"))
    t.ok(await page.isVisible('a[href="/docs/reference#samples"]'), 'painted before any asset has arrived')
    return { page, release }
  }
  await open({ viewport: { width: 360, height: 800 }, isMobile: true, hasTouch: true })
  const { page, release } = await open({ viewport: { width: 1280, height: 860 } })
  release()
  await page.waitForSelector('#docs .opblock')
  await checkConsole(t, page, false)
})
