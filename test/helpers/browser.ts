import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { Test } from 'tap'
import { until } from './until.ts'

/**
 * Makes @sparticuz/chromium unpack shared libraries that a minimal machine lacks. It reads the
 * variable on import.
 */
process.env.AWS_LAMBDA_JS_RUNTIME ??= 'nodejs22.x'

/**
 * Fictitious host name of the server under test: browsers treat `localhost` as a secure context,
 * which plain HTTP is not.
 */
export const HOST = 'status.test'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  `--host-resolver-rules=MAP ${HOST} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
]

/** The browser logs it where a test writes into a field before it has focused one itself. */
const OVERTAKEN = /^Autofocus processing was blocked because a document already has a focused element/

/**
 * Returns the path of Chromium. One process unpacks it; meanwhile the package would return an
 * incomplete file to others.
 */
async function unpackOnce(): Promise<string> {
  const { default: packed } = await import('@sparticuz/chromium')
  const [lock, done] = [join(tmpdir(), 'chromium-lock'), join(tmpdir(), 'chromium-done')]
  try {
    mkdirSync(lock)
  } catch {
    await until(() => existsSync(done))
  }
  const path = await packed.executablePath()
  mkdirSync(done, { recursive: true })
  return path
}

/** A monospaced font, and one of emoji, which the package of Chromium does not have. */
const FONTS = [
  import.meta.resolve('dejavu-fonts-ttf/ttf/DejaVuSansMono.ttf'),
  import.meta.resolve('dejavu-fonts-ttf/ttf/DejaVuSansMono-Bold.ttf'),
  import.meta.resolve('@expo-google-fonts/noto-emoji/400Regular/NotoEmoji_400Regular.ttf'),
]

/**
 * Returns a configuration with these fonts, and those that the package unpacks. Its own names folders
 * below `/tmp`, whatever `TMPDIR` is, and Chromium crashes at the first form if it has no font.
 */
function fontConfig(profile: string): string {
  const own = join(profile, 'fonts')
  mkdirSync(own)
  for (const font of FONTS) symlinkSync(fileURLToPath(import.meta.resolve(font)), join(own, basename(font)))
  const alias = (family: string, font: string) =>
    `<alias><family>${family}</family><prefer><family>${font}</family></prefer></alias>`
  return `<fontconfig><dir>${join(tmpdir(), 'fonts')}</dir><dir>${own}</dir><cachedir>${profile}</cachedir>
    ${alias('sans-serif', 'Open Sans')}${alias('monospace', 'DejaVu Sans Mono')}</fontconfig>`
}

/** Starts Chromium. The test's teardown closes it and removes its profile. */
export async function openBrowser(t: Pick<Test, 'teardown'>) {
  const executablePath = await unpackOnce()
  const profile = mkdtempSync(join(tmpdir(), 'browser-'))
  const fonts = join(profile, 'fonts.conf')
  writeFileSync(fonts, fontConfig(profile))
  const browser = await chromium.launch({
    executablePath,
    args: FLAGS,
    env: { ...process.env, HOME: profile, FONTCONFIG_FILE: fonts },
  })
  t.teardown(async () => {
    await browser.close()
    rmSync(profile, { recursive: true, force: true })
  })
  return {
    /** Opens a browser context with its own cookies. It can reach `HOST` and 127.0.0.1 only. */
    async openContext(options: BrowserContextOptions = {}): Promise<BrowserContext> {
      return browser.newContext(options)
    },
    /**
     * Opens a page in a context of its own. The test fails on console messages of the site, script
     * errors, dialogs, and requests to other hosts.
     *
     * @param sites URL of the site, and of others that it leads to
     * @param expected console messages that are no failure: the browser logs the status of error
     * pages
     */
    async openPage(
      t: Test,
      sites: readonly [site: string, ...others: string[]],
      options: BrowserContextOptions = {},
      expected = /status of 4\d\d/,
    ): Promise<Page> {
      const context = await browser.newContext(options)
      t.teardown(() => context.close())
      const page = await context.newPage()
      const complaints: string[] = []
      page.on('console', (message) => {
        const { url } = message.location()
        const isOfSite = url === '' || url.startsWith(sites[0])
        const isExpected = expected.test(message.text()) || OVERTAKEN.test(message.text())
        if (isOfSite && !isExpected) complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(error.message))
      page.on('dialog', (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`)
        return dialog.dismiss()
      })
      page.on('request', (request) => {
        const isOfOther = sites.slice(1).some((site) => request.frame().url().startsWith(site))
        if (!isOfOther && !['data:', ...sites].some((start) => request.url().startsWith(start)))
          complaints.push(request.url())
      })
      t.teardown(() => assert.deepEqual(complaints, []))
      return page
    },
  }
}

/** Presses Tab until an element has the focus. */
export async function tabTo(t: Test, page: Page, selector: string): Promise<void> {
  for (let presses = 0; presses < 120; presses++) {
    if ((await page.locator(`${selector}:focus`).count()) > 0) return
    await page.keyboard.press('Tab')
  }
  t.fail(`${selector} cannot be reached`)
}
