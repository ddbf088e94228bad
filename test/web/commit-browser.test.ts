import type { BrowserContextOptions, Response } from 'playwright-core'
import t, { type Test } from 'tap'
import type { StatusState } from '../../src/domain/states.ts'
import { HOST, openBrowser, tabTo } from '../helpers/browser.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { git } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { AXE, checkAccess, checkLooks, checkWidth } from './looks.ts'

const server = await startServer(t)
const browser = await openBrowser(t)
const url = server.url.replace('127.0.0.1', HOST)

/**
 * Creates a repository and returns its commits, the newest first, and a function that reports on
 * them.
 */
async function createRepository(name: string, count: number) {
  const { id, path, commits } = await server.createRepository(`alice/${name}`, { commits: count })
  const report = (sha: string, context: string, state: StatusState, description: string | null = null) => {
    const target_url = `https://ci.example.org/${encodeURIComponent(context)}`
    return server.store.statuses.report({ repositoryId: id, sha, context, state, description, target_url })
  }
  const require = (refPattern: string, ...required: string[]) =>
    asAdministrator(server.store).rules.set(
      { id, owner: 'alice', name },
      { refPattern, required, bypass: [] },
    )
  return { path, commits: commits.reverse(), report, require, url: `${url}/alice/${name}` }
}

const openPage = (t: Test, options?: BrowserContextOptions) =>
  browser.openPage(t, [url], options, /status of 503/)

const DESKTOP = { viewport: { width: 1280, height: 860 } }
/** Pages are used in these; `checkLooks` shows each in others too. */
const LOOKS: Record<string, BrowserContextOptions> = {
  phone: { viewport: { width: 360, height: 800 }, isMobile: true, hasTouch: true },
  'no JavaScript': { ...DESKTOP, javaScriptEnabled: false },
}

t.test('the first screen answers the questions of a user', async (t) => {
  const { path, commits, report, require, url } = await createRepository('first-screen', 12)
  const [tip = ''] = commits
  await require('main', 'ci/mac', 'launch/approval')
  for (let index = 0; index < 120; index++)
    await report(tip, `ci/shard-${index}`, index === 77 ? 'failure' : index === 78 ? 'pending' : 'success')
  for (const [index, sha] of commits.entries()) await report(sha, 'ci/mac', index < 5 ? 'failure' : 'success')
  for (let index = 0; index < 60; index++) await report(commits[3] ?? '', `left/out-${index}`, 'success')
  git(path, 'branch', 'feature/x', commits[7] ?? '')
  const silent = commits[11] ?? ''
  await report(silent, `${'long'.repeat(60)}\u202e`, 'pending', 'd'.repeat(1_000))

  for (const [look, options] of Object.entries(LOOKS)) {
    t.test(look, async (t) => {
      const page = await openPage(t, options)
      await page.addInitScript(AXE)
      const size = options.viewport ?? DESKTOP.viewport
      const isOnFirstScreen = async (text: string, height = size.height) => {
        const box = await page.getByText(text).first().boundingBox()
        t.ok(box && box.y + box.height <= height, `${text} ends at ${box && box.y + box.height} px`)
      }
      const check = async (path: string) => {
        await page.goto(url + path)
        if (options.javaScriptEnabled !== false) await checkLooks(t, page, path)
      }

      await check(`/commits/${tip}`)
      const verdict = 'failure main: not deployable'
      t.equal(await page.title(), `✗ 2 failed · first-screen@${tip.slice(0, 7)}`)
      const facts = async () => (await page.textContent('.facts'))?.replace(/\s+/g, ' ')
      t.equal(await facts(), `${verdict}, 2 failed, 1 not reported · 1 pending · 118 passed`)
      for (const text of ['ci/mac', 'ci/shard-77', 'ci/shard-78', 'launch/approval'])
        await isOnFirstScreen(text)
      // Of the smallest phones, too.
      await isOnFirstScreen('ci/mac', 640)
      t.equal(await page.isVisible('text=ci/shard-5'), false, 'passed checks are folded')
      await page.fill('#q', 'shard-5')
      await page.selectOption('#state', 'success')
      await page.click('text=Filter')
      await page.waitForURL('**?q=shard-5&state=success')
      t.equal(await page.locator('.rows li:visible').count(), 11)

      await check('')
      await page.getByText('Required checks').scrollIntoViewIfNeeded()
      t.equal(await page.textContent('.rules dd'), 'ci/mac, launch/approval')
      await check('/checks')
      const since = page.locator('#failing li').first()
      t.match(await since.textContent(), /ci\/mac\s+Broken for .* by .*5 commits/s)
      await isOnFirstScreen('ci/mac')
      t.equal(
        await facts(),
        `${verdict} · 2 failed · 1 not reported: launch/approval · 1 pending · 118 passed`,
      )
      t.equal(await page.locator('.matrix tbody tr').count(), 182, 'all checks are shown')
      t.equal(await page.locator('.matrix thead [scope=col]').count(), 13)
      const [row = []] = await page
        .locator('.matrix tbody tr')
        .evaluateAll((rows) =>
          rows.slice(0, 1).map((row) => [...row.children].map((cell) => cell.textContent)),
        )
      t.same(row, ['ci/mac', ...Array(5).fill('failure'), ...Array(7).fill('success')])
      t.equal(await page.getAttribute('.matrix td.failure a', 'href'), 'https://ci.example.org/ci%2Fmac')
      const cell = await page.locator('.matrix td.success [title]').first().boundingBox()
      t.ok(cell && cell.width < 32 && cell.height < 32, 'a cell has the size of an icon')
      if (options.javaScriptEnabled !== false) {
        const corner = page.locator('.matrix thead th').first()
        await page.evaluate("document.querySelector('.matrix').scrollTo(200, 3000)")
        const [outer, inner] = [await page.locator('.matrix').boundingBox(), await corner.boundingBox()]
        t.ok(outer && inner && inner.y - outer.y < 3 && inner.x - outer.x < 3, 'header and first column stay')
      }
      await page.fill('#q', 'SHARD-7')
      await page.selectOption('#state', 'failure')
      t.match(
        await page.textContent('#state'),
        /all states \(182\)failure \(2\)error \(0\)pending \(1\)stalled \(0\)success \(118\)not reported \(61\)/,
      )
      await page.click('text=Filter')
      await page.waitForURL('**/checks?ref=main&q=SHARD-7&state=failure')
      t.same(await page.locator('.matrix tbody th').allTextContents(), ['ci/shard-77'])
      t.match(await page.textContent('#state'), 'success (118)', 'the filter keeps the counts')

      await check('/checks?ref=feature%2Fx')
      t.equal(await page.textContent('h1'), 'Checks of feature/x')
      t.equal(await page.locator('#failing').count(), 0)
      for (const [find, path] of [
        ['E/X', '/checks?ref=feature/x'],
        [tip.slice(0, 7), `/commits/${tip}`],
        ['', ''],
      ]) {
        await page.fill('#find', find ?? '')
        await page.press('#find', 'Enter')
        await page.waitForURL(url + path)
      }
      await check(`/commits/${silent}`)
      t.match(await page.textContent('.rows .name'), '[U+202E]')
    })
  }
})

t.test('a check is one line, or two on a phone', async (t) => {
  const { commits, report, require, url } = await createRepository('lines', 3)
  const [mixed = '', clean = '', many = ''] = commits
  const names = [
    'ci/mac',
    'perf/benchmarks-of-the-parser',
    'release/changelog',
    `${'long-'.repeat(40)}end`,
    'فحص/الوحدات/على/جميع/الأنظمة/المدعومة',
    '検査/単体テスト/すべてのプラットフォームで実行する',
  ]
  for (let index = 0; index < 20; index++) {
    const name = names[index] ?? `ci/shard-${index}`
    const text = index < 6 ? 'valve opens too late when the tank is cold '.repeat(4) : '412 tests passed'
    await report(mixed, name, index < 7 ? 'failure' : 'success', text)
    await report(clean, name, 'success', text)
  }
  await Promise.all(
    Array.from({ length: 1_000 }, (_, index) =>
      report(many, `ci/shard-${index}`, index < 200 ? 'failure' : 'success', 'tests ran'),
    ),
  )
  await require('main', 'release/changelog')
  const page = await openPage(t, DESKTOP)
  await page.addInitScript(AXE)
  for (const [width, lines] of [
    [1280, 1],
    [768, 1],
    [360, 2],
  ] as const) {
    await page.setViewportSize({ width, height: 860 })
    for (const sha of [mixed, clean]) {
      await page.goto(`${url}/commits/${sha}`)
      const heights = await page
        .locator('.rows li:visible')
        .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height))
      t.equal(heights.length, sha === clean ? 20 : 7, 'passed checks are folded below failed ones')
      t.ok(Math.max(...heights) < 12 + lines * 27, `${width} px: rows of ${Math.max(...heights)} px`)
      await checkWidth(t, page, `${width} px`)
      const height = await page.evaluate<number>('document.documentElement.scrollHeight')
      if (lines === 1) t.ok(height <= 1_100, `20 checks have ${height} px`)
      if (sha === mixed) await checkAccess(t, page, `${width} px`)
    }
    t.equal(await page.getAttribute('[title^=long]', 'title'), names[3])
    await page.goto(url)
    const rows = await page
      .locator('.history li')
      .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height))
    t.ok(Math.max(...rows) < 10 + lines * 27, `${width} px: commits of ${Math.max(...rows)} px`)
    await checkWidth(t, page, `${width} px: a repository`)
    const { y = 0 } = (await page.locator('h1').boundingBox()) ?? {}
    if (width === 360) t.ok(y <= 96, `the content begins at ${y} px`)
  }
  await page.click('#find')
  t.ok(await page.getByText('Go', { exact: true }).isVisible(), 'the field of a commit is one tap away')
  await checkWidth(t, page, 'the field of a commit')
  await page.emulateMedia({ forcedColors: 'active' })
  await page.goto(`${url}/commits/${mixed}`)
  t.ok(await page.getByText('ci/mac').first().isVisible(), 'forced colors')
  await page.emulateMedia({ forcedColors: null })
  await page.locator('.note summary').first().click()
  t.ok(await page.getByText('when the tank is cold').first().isVisible(), 'a description opens')
  await checkWidth(t, page, 'an opened description')
  await page.goto(`${url}/commits/${many}`)
  t.equal(await page.textContent('.section .count'), '800')
  t.equal(await page.locator('.rows li').count(), 200)
  await page.click('text=Passed 800')
  await page.waitForURL('**?state=success')
  t.equal(await page.locator('.rows li:visible').count(), 800, 'what passed is loaded when it is asked for')
})

t.test('a page is brought up to date while checks are pending', async (t) => {
  const { commits, report, url } = await createRepository('live', 1)
  const [sha = ''] = commits
  for (let index = 0; index < 60; index++) await report(sha, `ci/job-${index}`, 'pending', 'waits')
  const page = await openPage(t, DESKTOP)
  const isPoll = (response: Response) => 'x-live' in response.request().headers()
  const answers: number[] = []
  page.on('response', (response) => {
    if (isPoll(response)) answers.push(response.status())
  })
  await page.clock.install()
  await page.goto(`${url}/commits/${sha}`)
  t.equal(await page.title(), `● 60 pending · live@${sha.slice(0, 7)}`)
  /** Advances the clock of the page to its next request and returns the answer's status. */
  const next = async () => {
    const answer = page.waitForResponse(isPoll)
    await page.clock.fastForward(60_000)
    return (await answer).status()
  }
  t.same([await next(), await next()], [200, 304])

  // The user reads row 40, has focused its link, and has selected a part of row 41.
  const read = page.locator('.rows li', { hasText: 'ci/job-40' })
  await read.scrollIntoViewIfNeeded()
  await read.locator('a').focus()
  await page.evaluate(`{
    const [text] = [...document.querySelectorAll('.rows li')].filter((row) => row.textContent.includes('ci/job-41'))
    getSelection().selectAllChildren(text.querySelector('bdi'))
  }`)
  const before = await read.boundingBox()
  await report(sha, 'ci/job-0', 'failure', 'broken')
  await report(sha, 'ci/job-1', 'failure', 'broken')
  t.equal(await next(), 200)
  await until(async () => (await page.title()).startsWith('✗ 2 failed'))
  t.equal(await page.getAttribute('link[rel=icon]', 'href'), '/assets/icon-failure.svg')
  t.equal(await page.textContent('p[role=status]'), '2 failed, 58 pending', 'announced')
  t.equal(await page.locator('#failed li').count(), 2)
  t.equal(await page.locator('#pending li').count(), 58)
  const focus = () => page.evaluate<string>('document.activeElement.textContent')
  const selection = () => page.evaluate<string>('getSelection().toString()')
  t.equal(await focus(), 'ci/job-40')
  t.equal(await selection(), 'ci/job-41')
  const after = await read.boundingBox()
  t.ok(before && after && Math.abs(before.y - after.y) < 2, `${before?.y} px, then ${after?.y} px`)

  await report(sha, 'ci/job-40', 'success')
  await report(sha, 'ci/job-41', 'success')
  t.equal(await next(), 200)
  await until(async () => (await page.locator('#passed li').count()) === 2)
  t.same([await focus(), await selection()], ['ci/job-40', 'ci/job-41'], 'in rows that have moved')
  t.match(
    await page.textContent('#failed time'),
    /^(just now|\d+ minutes? ago)$/,
    'the script writes the ages',
  )

  t.test('not in a hidden tab', async (t) => {
    const setHidden = (hidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${hidden} })
        document.dispatchEvent(new Event('visibilitychange'))`)
    await setHidden(true)
    const count = answers.length
    await page.clock.fastForward(3_600_000)
    t.equal(answers.length, count)
    await report(sha, 'ci/job-2', 'failure')
    const answer = page.waitForResponse(isPoll)
    await setHidden(false)
    t.match(await page.textContent('#failed time'), /hour/, 'ages are right at once')
    t.equal((await answer).status(), 200, 'and what was reported follows, without waiting')
    await until(async () => (await page.title()).startsWith('✗ 3 failed'))
    await report(sha, 'ci/job-2', 'pending')
    t.equal(await next(), 200)
  })

  t.test('it says how old it is while the server cannot be reached', async (t) => {
    await page.route('**/commits/**', (route) => route.fulfill({ status: 503 }))
    await page.clock.fastForward(60_000)
    await page.getByText(/As of .* The server cannot be reached/).waitFor()
    await page.unroute('**/commits/**')
    await next()
    await until(async () => (await page.textContent('p[role=status]')) === 'This page is up to date again.')
    t.equal(await page.locator('p[role=status].sr').count(), 1)
  })

  t.test('a branch and its checks too', async (t) => {
    for (const [path, button] of [
      ['', 'Copy'],
      ['/checks', ''],
    ] as const) {
      const other = await openPage(t)
      await other.clock.install()
      await other.goto(url + path)
      await report(sha, 'ci/job-3', 'error', `of ${path}`)
      const change = async (status: number) => {
        const answer = other.waitForResponse((response) => response.url() === url + path)
        await other.clock.fastForward(60_000)
        t.equal((await answer).status(), status, path)
      }
      await change(200)
      await until(async () => (await other.textContent('#live'))?.includes('ci/job-3') ?? false)
      await until(async () => (await other.textContent('p[role=status]'))?.includes(' failed') ?? false)
      if (button)
        t.ok(await other.getByText(button, { exact: true }).first().isVisible(), 'it keeps its buttons')
      await change(304)
      await report(sha, 'ci/job-3', 'pending')
    }
  })

  t.test('not when the user may not see it any more', async (t) => {
    const other = await openPage(t)
    await other.clock.install()
    await other.goto(`${url}/commits/${sha}`)
    await asAdministrator(server.store).repositories.setVisibility(
      { owner: 'alice', name: 'live' },
      'private',
    )
    await other.clock.fastForward(10_000)
    await other.getByText('This page has stopped updating. Reload it.').waitFor()
    t.equal((await other.context().cookies()).length, 0, 'without asking for the sign-in page')
    await asAdministrator(server.store).repositories.setVisibility({ owner: 'alice', name: 'live' }, 'public')
  })

  t.test('more slowly when nothing is pending any more', async (t) => {
    for (let index = 0; index < 60; index++) await report(sha, `ci/job-${index}`, 'success')
    t.equal(await next(), 200)
    await until(async () => (await page.title()).startsWith('✓ 60 passed'))
    const count = answers.length
    await page.clock.fastForward(10_000)
    t.equal(answers.length, count)
    t.equal(await page.locator('#failed').count(), 0)
    await report(sha, 'ci/job-7', 'failure')
    t.equal(await next(), 200)
    await until(async () => (await page.title()).startsWith('✗ 1 failed'))
  })
})

t.test('the matrix is one stop of the keyboard, and is shown in forced colors and on paper', async (t) => {
  const { commits, report, url } = await createRepository('keys', 2)
  const [tip = ''] = commits
  for (let index = 0; index < 40; index++) await report(tip, `ci/job-${index}`, 'success')
  await report(tip, 'ci/job-1', 'failure')
  await report(tip, `ci/${'long-'.repeat(30)}end`, 'failure')
  const page = await openPage(t, DESKTOP)
  await page.goto(`${url}/checks`)
  const focused = () =>
    page.evaluate<string>(`(() => {
      const cell = document.activeElement.closest('.matrix :is(td, th)')
      return cell && cell.parentElement.cells[0].textContent + ' ' + cell.cellIndex
    })()`)
  await tabTo(t, page, '.matrix a')
  const read: string[] = []
  for (const key of ['ArrowUp', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown']) {
    read.push(await focused())
    await page.keyboard.press(key)
  }
  t.match(read[1], /^Check 1$/)
  t.equal(new Set(read.slice(1)).size, 4, read.join())
  const reached = await focused()
  for (const key of ['Shift+ArrowUp', 'Control+ArrowUp']) await page.keyboard.press(key)
  t.equal(await focused(), reached, 'other keys are those of the browser')
  await page.keyboard.press('Tab')
  t.equal(await focused(), null, 'the next stop is after the matrix')
  await page.keyboard.press('Shift+Tab')
  t.equal(await focused(), reached, 'and it is left and entered at the same place')

  await page.emulateMedia({ forcedColors: 'active' })
  const colors = await page.evaluate<string[]>(`(() => {
    const icon = document.querySelector('.matrix .success [title]')
    return [getComputedStyle(icon, '::before').backgroundColor, getComputedStyle(document.body).backgroundColor]
  })()`)
  t.not(colors[0], colors[1], 'icons are visible in forced colors')
  await page.emulateMedia({ forcedColors: null, media: 'print' })
  const sheet = { width: 740, height: 1000 }
  await page.setViewportSize(sheet)
  const { clientHeight, scrollHeight } = await page.evaluate<Record<string, number>>(
    "(({ clientHeight, scrollHeight }) => ({ clientHeight, scrollHeight }))(document.querySelector('.matrix'))",
  )
  t.equal(clientHeight, scrollHeight, 'nothing of the matrix is cut on paper')
  t.equal(
    await page.locator('form:visible, button:visible, select:visible').count(),
    0,
    'nor are there forms',
  )
  await page.goto(`${url}/commits/${tip}`)
  t.equal(await page.locator('form:visible, button:visible').count(), 0)
  await checkWidth(t, page, 'on paper')
})

t.test('the first failing log is a few keys away, and a copied id says so for a moment', async (t) => {
  const { commits, report, url } = await createRepository('few-keys', 2)
  await report(commits[0] ?? '', 'ci/mac', 'failure')
  const page = await openPage(t, DESKTOP)
  await page.clock.install()
  await page.goto(`${url}/commits/${commits[0]}`)
  for (const key of ['Tab', 'Enter', 'Tab', 'Enter', 'Tab']) await page.keyboard.press(key)
  t.equal(await page.evaluate('document.activeElement.href'), 'https://ci.example.org/ci%2Fmac')
  const button = page.locator('[data-copy=sha]')
  await button.click()
  await until(async () => (await button.textContent()) === 'Copied')
  await page.clock.fastForward(5_000)
  t.equal(await button.textContent(), 'Copy')
  t.equal(await button.getAttribute('aria-label'), 'Copy the commit id')
  await page.goto(url)
  await page.locator('.history code').first().click()
  await page.waitForURL(`**/commits/${commits[0]}`)
})

t.test('screen readers read the state first, then the verdict and what failed', async (t) => {
  const { commits, report, require, url } = await createRepository('reading', 2)
  const [sha = ''] = commits
  await require('main', 'ci/mac', 'launch/approval')
  await report(sha, 'ci/mac', 'failure', '2 of 414 tests failed')
  for (let index = 0; index < 119; index++) await report(sha, `ci/shard-${index}`, 'success')
  const page = await openPage(t, DESKTOP)
  const verdict = ['failure', 'main: not deployable', '1 failed']
  const orders: Record<string, string[]> = {
    '': [
      'navigation Site',
      'heading alice / reading',
      ...verdict,
      'link ci/mac',
      'launch/approval',
      'navigation Branches',
      'heading Commits of main',
    ],
    '/checks': [
      'heading Checks of main',
      ...verdict,
      'list Failing checks',
      'search Checks',
      'rowheader ci/mac',
    ],
    [`/commits/${sha}`]: [
      'heading Commit',
      ...verdict,
      'link branch main',
      'search Checks',
      'list Failed',
      'ci/mac',
      '2 of 414 tests failed',
      'list Not reported',
      'launch/approval',
      'heading Passed 119',
    ],
  }
  for (const [path, order] of Object.entries(orders)) {
    await page.goto(url + path)
    const read = (await page.locator('body').ariaSnapshot()).replace(/["\s]+/g, ' ')
    let from = 0
    for (const text of order) {
      const found = read.indexOf(text, from)
      t.ok(found >= 0, `${path}: ${text} follows`)
      from = Math.max(found, from)
    }
  }
})
