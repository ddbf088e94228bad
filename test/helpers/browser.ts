import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, type BrowserContextOptions, chromium } from 'playwright-core'
import type { Test } from 'tap'

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
  `--host-resolver-rules=MAP ${HOST} 127.0.0.1, MAP * ~NOTFOUND`,
]

/** Starts Chromium. The test's teardown closes it and removes its profile. */
export async function openBrowser(t: Pick<Test, 'teardown'>) {
  const { default: packed } = await import('@sparticuz/chromium')
  const executablePath = await packed.executablePath()
  const profile = mkdtempSync(join(tmpdir(), 'browser-'))
  const browser = await chromium.launch({
    executablePath,
    args: FLAGS,
    env: { ...process.env, HOME: profile },
  })
  t.teardown(async () => {
    await browser.close()
    rmSync(profile, { recursive: true, force: true })
  })
  return {
    /** Opens a browser context with its own cookies. It can reach `HOST` only. */
    async visitor(options: BrowserContextOptions = {}): Promise<BrowserContext> {
      return browser.newContext(options)
    },
  }
}
