import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, type BrowserContextOptions, chromium } from 'playwright-core'
import type { Test } from 'tap'
import { until } from './until.ts'

/** Makes @sparticuz/chromium unpack shared libraries that a minimal machine lacks. It reads the variable on import. */
process.env.AWS_LAMBDA_JS_RUNTIME ??= 'nodejs22.x'

/** Fictitious host name of the server under test: browsers treat `localhost` as a secure context, which plain HTTP is not. */
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

/** Returns the path of Chromium. One process unpacks it; meanwhile the package would return an incomplete file to others. */
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

/**
 * Returns a configuration with the fonts that the package unpacks. Its own names folders below `/tmp`, whatever `TMPDIR` is,
 * and Chromium crashes at the first form if it has no font.
 */
function fontConfig(cache: string): string {
  return `<fontconfig><dir>${join(tmpdir(), 'fonts')}</dir><cachedir>${cache}</cachedir></fontconfig>`
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
  }
}
