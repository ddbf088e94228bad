import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { createClient } from '../../clients/typescript/src/index.ts'
import { HOST, openBrowser } from '../helpers/browser.ts'
import { git } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'
import { createAccount, PASSWORD } from '../helpers/visitor.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const server = await startServer(t, { budget: { limit: 1000, window: 300 } })
const browser = await openBrowser(t)
const url = server.url.replace('127.0.0.1', HOST)
await createAccount(server, 'alice')

/** A page whose console, and whose requests to other hosts, are watched. */
async function openPage(t: Test, options: BrowserContextOptions = {}) {
  const context = await browser.visitor(options)
  t.teardown(() => context.close())
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    // A page that is itself an error is told of too; all else would be a fault.
    if (message.type() !== 'log' && !/status of 4\d\d/.test(message.text())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`)
    return dialog.dismiss()
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complaints.push(request.url())
  })
  t.teardown(() => t.same(complaints, [], 'no complaint, and no request to another host'))
  return { page, context, complaints }
}

async function signIn(page: Page) {
  await page.goto(`${url}/settings/tokens`)
  await page.fill('#name', 'alice')
  await page.fill('#password', PASSWORD)
  await page.click('main button[type=submit]')
  await page.waitForURL(`${url}/settings/tokens`)
}

/** A checkout with one commit. */
function checkout(t: Test, message = 'Build the engine') {
  const folder = mkdtempSync(join(tmpdir(), 'checkout-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  git(folder, 'init', '--quiet', '--initial-branch=main')
  git(folder, 'commit', '--quiet', '--allow-empty', '--message', message)
  return { folder, sha: git(folder, 'rev-parse', 'HEAD') }
}
