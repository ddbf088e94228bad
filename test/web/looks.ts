import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { SMALL_TARGETS, TARGET } from './small-targets.ts'

export const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
const COLORS = ['color-contrast', 'link-in-text-block']
/** The rows in the middle of a long table or list, which look like its first ones. */
const MIDDLE = ':is(tr, .rows li):nth-child(n + 20):not(:last-child)'
const WIDE = { width: 1280, height: 860 }
/** What a wide window has at 200 %. */
const ZOOMED = { width: 640, height: 430 }
/** With the others, each part of the stylesheet for some widths. */
const TABLETS = [768, 1000].map((width) => ({ width, height: 860 }))

/**
 * Checks that the page that is shown fits its window and a wide one, and that it is accessible in
 * light and dark colors. Changing the window takes less time than loading the page in each. The
 * page must have `AXE` as its initial script.
 */
export async function checkLooks(t: Test, page: Page, what: string): Promise<void> {
  // What was waited for can be there before the stylesheet is.
  await page.waitForLoadState()
  await checkWidth(t, page, what)
  await checkTargets(t, page, what)
  const repeated = await page.evaluate<string[]>(
    "[...document.querySelectorAll('[id]:not(#docs *)')].map(({ id }) => id).filter((id, index, ids) => ids.indexOf(id) !== index)",
  )
  t.same(repeated, [], `${what}: each id belongs to one element`)
  const missing = await page.evaluate<string[]>(
    `['aria-describedby', 'aria-labelledby'].flatMap((name) =>
      [...document.querySelectorAll('[' + name + ']:not(#docs *)')].flatMap((element) =>
        element.getAttribute(name).split(' '))).filter((id) => !document.getElementById(id))`,
  )
  t.same(missing, [], `${what}: what names and describes elements is there`)
  const own = page.viewportSize() ?? WIDE
  await page.setViewportSize(ZOOMED)
  await checkWidth(t, page, `${what}, at 200 %`)
  await checkTargets(t, page, `${what}, at 200 %`)
  for (const size of TABLETS) {
    await page.setViewportSize(size)
    await checkTargets(t, page, `${what}, ${size.width} px`)
  }
  await page.setViewportSize(WIDE)
  await checkWidth(t, page, what)
  await checkTargets(t, page, what)
  await checkAccess(t, page, `${what}, light`)
  await page.emulateMedia({ colorScheme: 'dark' })
  // Scripts follow in the next frame, and colors may change slowly.
  await page.evaluate(`new Promise(requestAnimationFrame).then(() =>
    Promise.allSettled(document.getAnimations().map(({ finished }) => finished)))`)
  // Only colors differ from the light look.
  await checkAccess(t, page, `${what}, dark`, { runOnly: COLORS })
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(own)
}

/** Checks that nothing of the page is wider than its window. */
export async function checkWidth(t: Test, page: Page, what: string): Promise<void> {
  const [content = 0, window = 0, cut] = await page.evaluate<number[]>(
    `[document.scrollingElement.scrollWidth, document.scrollingElement.clientWidth,
      [...document.querySelectorAll('.scroll')].filter((table) => table.scrollWidth > table.clientWidth).length]`,
  )
  t.equal(window, page.viewportSize()?.width, `${what}: the width of the window is that of the page`)
  t.ok(content <= window, `${what}: ${content} px in a window of ${window} px`)
  t.equal(cut, 0, `${what}: no column is out of sight`)
}

/**
 * Checks that what can be clicked is large enough, or far enough from the rest: WCAG 2.5.8. Links in a
 * sentence, whose size is that of its line, are excepted.
 */
async function checkTargets(t: Test, page: Page, what: string): Promise<void> {
  const small = await page.evaluate<string[]>(SMALL_TARGETS)
  t.same(small, [], `${what}: targets of at least ${TARGET} px`)
}

/** Checks that the page is accessible as it is. */
export async function checkAccess(t: Test, page: Page, what: string, options: object = {}): Promise<void> {
  const all = JSON.stringify({ ...options, resultTypes: ['violations'], preload: false })
  // Only what is reported leaves the page: all that axe has found takes longer to hand over.
  const violations = await page.evaluate<string[]>(
    `axe.run({ exclude: ${JSON.stringify([MIDDLE])} }, ${all}).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target).join(' ')))`,
  )
  t.same(violations, [], what)
}
