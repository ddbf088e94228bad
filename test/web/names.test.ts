import type { Page } from 'playwright-core'
import t from 'tap'
import { HOST, openBrowser } from '../helpers/browser.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { createAccount, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

/** Names from 1 to 255 characters, no two of which look the same. */
const SHORT = [
  'x',
  ' ',
  'a b',
  'a  b',
  ' a b',
  'a b ',
  '(a)',
  '/',
  'é',
  'e\u0301x',
  'מבחן',
  '構築',
  'MM',
  'ci/build',
]
const MIDDLE = [
  'test/e2e (webkit)',
  'test/e2e  (webkit)',
  'perf/benchmark',
  '</script>(x)',
  'case 0/case 0',
  '  two spaces before',
  'two spaces after  ',
  'deploy / preview (eu-west-1)',
  'ci/עברית/בדיקה (main)',
  'فحص/الوحدات/على/الأنظمة',
  '単体テスト/すべてのプラットフォーム',
  `${'e\u0301'.repeat(20)}`,
  '👩‍👩‍👧 family of 👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧',
  'WWWWWWWWWWWWWWWW',
]
const PARTS = ['long-', 'a/b/', 'x y  ', '(z) ', 'W', 'é', 'שלום', 'テスト', 'mmm', 'i']
const LONG = [40, 80, 255].flatMap((length) =>
  PARTS.map((part) => `${part.repeat(length).slice(0, length - 4)}.${length}`.slice(0, length)),
)
const NAMES = [...SHORT, ...MIDDLE, ...LONG, 'plain/name', 'plain/name-2']
const WIDTHS = [1280, 768, 360, 320]

const server = await startServer(t)
const browser = await openBrowser(t)
const url = server.url.replace('127.0.0.1', HOST)

/** What a page shows of names, by index; and what lies over something else in its rows. */
interface Seen {
  cut: number
  hidden: string[]
  overlaps: string[]
}

/**
 * Compares where text is with what its ancestors clip. It reads the layout alone, not how the
 * stylesheet makes it.
 */
const LOOK = `(names) => {
  const characters = new Intl.Segmenter('en', { granularity: 'grapheme' })
  const sizes = (text) => [...characters.segment(text)].map(({ segment }) => segment.length)
  const visible = (element, rect) => {
    let { left, right, top, bottom } = rect
    for (let box = element; box && box !== document.body; box = box.parentElement) {
      if (!/hidden|clip/.test(getComputedStyle(box).overflowX)) continue
      const clip = box.getBoundingClientRect()
      left = Math.max(left, clip.left); right = Math.min(right, clip.right)
      top = Math.max(top, clip.top); bottom = Math.min(bottom, clip.bottom)
    }
    return right > left && bottom > top ? { left, right, top, bottom } : null
  }
  const seen = { cut: 0, hidden: [], overlaps: [] }
  const shown = (node, from, to) => {
    const range = document.createRange()
    range.setStart(node, from)
    range.setEnd(node, to)
    return [...range.getClientRects()].every((rect) => {
      const part = visible(node.parentElement, rect)
      return rect.width === 0 || (part && part.right - part.left > rect.width - 1.5)
    })
  }
  for (const name of document.querySelectorAll('main bdi')) {
    if (!names.includes(name.textContent) || !name.checkVisibility() || name.closest('.sr')) continue
    const box = visible(name, name.getBoundingClientRect())
    if (!box) continue
    const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT)
    const text = walker.nextNode()
    if (walker.nextNode()) seen.hidden.push('several texts: ' + name.textContent)
    const lengths = sizes(text.data)
    const sum = (list) => list.reduce((total, length) => total + length, 0)
    if (!shown(text, 0, sum(lengths.slice(0, 3)))) seen.hidden.push('start: ' + text.data)
    const end = sum(lengths.slice(-3))
    if (shown(text, 0, text.data.length)) continue
    seen.cut++
    if (name.title !== text.data) seen.hidden.push('title: ' + text.data)
    // The end is generated content, which has no rectangle of its own.
    const style = getComputedStyle(text.parentElement, '::before')
    const generated = text.parentElement.dataset.end ?? ''
    const probe = document.body.appendChild(document.createElement('span'))
    probe.style = 'position:absolute;white-space:pre;visibility:hidden;font:' + getComputedStyle(name).font
    probe.textContent = text.data.slice(-end)
    if (parseFloat(style.height) < 10 || parseFloat(style.width) < probe.offsetWidth || !generated.endsWith(probe.textContent))
      seen.hidden.push('end: ' + text.data)
    probe.remove()
  }
  for (const row of document.querySelectorAll('main li')) {
    const parts = [...row.querySelectorAll('.badge, .icon, bdi, time, code')]
      .filter((part) => part.checkVisibility() && !part.closest('.sr') && !part.querySelector('.badge, .icon, bdi, time, code'))
      // A part may go on in the next line.
      .map((part) => [part, [...part.getClientRects()].map((rect) => visible(part.parentElement, rect)).filter(Boolean)])
    for (const [index, [part, boxes]] of parts.entries())
      for (const [other, others] of parts.slice(index + 1)) {
        const lies = boxes.some((a) => others.some((b) =>
          Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4))
        if (lies) seen.overlaps.push(part.textContent.slice(0, 20) + ' | ' + other.textContent)
      }
  }
  return seen
}`

const look = (page: Page) => page.evaluate<Seen>(`(${LOOK})(${JSON.stringify(NAMES)})`)

/** Returns what is pasted after everything, or an element, was selected and copied. */
async function copyOf(page: Page, selector: string): Promise<string> {
  await page.evaluate(`getSelection().selectAllChildren(document.querySelector(${JSON.stringify(selector)}))`)
  await page.keyboard.press('Control+C')
  await page.evaluate(
    "document.body.append(Object.assign(document.createElement('textarea'), { id: 'paste' }))",
  )
  await page.focus('#paste')
  await page.keyboard.press('Control+V')
  const text = await page.inputValue('#paste')
  await page.evaluate("document.getElementById('paste').remove()")
  return text
}

t.test('names are seen, copied and read as they are', async (t) => {
  t.equal(NAMES.length, 60)
  t.equal(new Set(NAMES).size, 60)
  t.equal(Math.max(...NAMES.map((name) => name.length)), 255)
  await createAccount(server, 'alice')
  const { id, commits } = await server.createRepository('alice/names', { commits: NAMES.length / 3 + 1 })
  const [tip = '', ...older] = commits.reverse()
  const report = (sha: string, context: string) => {
    const target_url = 'https://ci.example.org/'
    return server.store.statuses.report({
      repositoryId: id,
      sha,
      context,
      state: 'failure',
      description: null,
      target_url,
    })
  }
  for (const [index, name] of NAMES.entries()) {
    await report(tip, name)
    await report(older[Math.floor(index / 3)] ?? '', name)
  }
  for (let start = 0; start < NAMES.length; start += 15)
    await asAdministrator(server.store).rules.set(
      { id, owner: 'alice', name: 'names' },
      { refPattern: `r${start}`, required: NAMES.slice(start, start + 15), bypass: [] },
    )

  const page = await browser.openPage(t, [url], { viewport: { width: 1280, height: 900 } })
  await page.goto(`${url}/login`)
  await page.fill('#name', 'alice')
  await page.fill('#password', PASSWORD)
  await page.click('main button[type=submit]')
  await page.waitForURL(`${url}/`)
  const repository = `${url}/alice/names`
  const pages = {
    home: url,
    repository,
    commit: `${repository}/commits/${tip}`,
    checks: `${repository}/checks`,
    rules: `${repository}/settings/checks`,
  }
  for (const [what, path] of Object.entries(pages)) {
    await page.goto(path)
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 })
      const { cut, hidden, overlaps } = await look(page)
      t.same(hidden, [], `${what}, ${width} px: the beginning and the end of each name`)
      t.same(overlaps, [], `${what}, ${width} px: nothing lies over another`)
      if (what === 'commit') t.ok(width === 1280 ? cut < 40 : cut > 20, `${width} px: ${cut} names are cut`)
    }
  }
  await page.goto(pages.commit)
  const lines = (await copyOf(page, 'main')).split('\n')
  for (const name of NAMES) t.equal(lines.filter((line) => line === name).length, 1, `${name} is copied once`)
  const row = page.locator('#failed li', { hasText: 'perf/benchmark' })
  const rowId = await row.getAttribute('id')
  t.same(
    (await copyOf(page, `#${rowId}`)).split('\n').filter((line) => line.includes('perf')),
    ['perf/benchmark'],
  )
  const links = await page.locator('#failed').ariaSnapshot()
  // Screen readers read several spaces as one.
  const read = NAMES.map((name) =>
    JSON.stringify(name === ' ' ? '1 space' : name.trim().replace(/\s+/g, ' ')),
  )
  for (const name of new Set(read))
    t.equal(links.split(`link ${name}`).length, read.filter((other) => other === name).length + 1, name)
})
