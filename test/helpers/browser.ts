import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, type BrowserContextOptions, chromium } from 'playwright-core'
import type { Test } from 'tap'

/** Makes the package unpack the libraries that a bare machine lacks; it looks for this when it is imported. */
process.env.AWS_LAMBDA_JS_RUNTIME ??= 'nodejs22.x'

/** Made-up host of the server under test: the browser grants `localhost` what it grants no other plain http site. */
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

/** Starts a real Chromium; it and its profile are gone when the test ends. */
export async function openBrowser(t: Test) {
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
    /** A visitor of its own, who may speak to the made-up host alone. */
    async visitor(options: BrowserContextOptions = {}): Promise<BrowserContext> {
      return browser.newContext(options)
    },
  }
}
