import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import '../../src/runtime.ts'
import { COMBINED, type CombinedState, type StatusState } from '../../src/domain/states.ts'
import { openStore } from '../../src/store/store.ts'
import { HOST, openBrowser } from '../helpers/browser.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { git } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { passTime } from '../helpers/pass-time.ts'
import { addRepository } from '../helpers/records.ts'

/**
 * Makes the pictures of the README: `npm run screenshots`, or `npm run screenshots -- FOLDER` for
 * another folder. With `--phone` it makes them as a phone shows the pages, with `--all` also those
 * of other pages, and with `--png` PNG files.
 */
const option = (name: string) => process.argv.includes(`--${name}`)
const [phone, all, png] = [option('phone'), option('all'), option('png')]
const [given] = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const target = resolve(given ?? join(import.meta.dirname, '../../src/web/screenshots'))
const VIEWPORT = phone ? { width: 390, height: 800 } : { width: 1120, height: 700 }
const QUALITY = 40
const MAX_BYTES = 200_000

const SUBJECTS = [
  ['Retry the ignition once before giving up', 'Grace Mbeki', 'main'],
  ['Read the fuel gauge from the new sensor', 'Jonas Lind', 'main'],
  ['Remove the second stage’s legacy valve', 'Mei Tanaka', 'main'],
  ['Count down in seconds, not in ticks', 'Grace Mbeki', 'main'],
  ['Log the reason when the countdown stops', 'Priya Nair', 'main'],
  ['Check the weather before fuelling', 'Jonas Lind', 'main'],
  ['Draw the trajectory in the map view', 'Mei Tanaka', 'main'],
  ['Fold the landing legs after touchdown', 'Priya Nair', 'main'],
] as const
const BRANCHES = [
  'feature/reuse-booster',
  'fix/valve-leak',
  'grace/telemetry',
  'release/2.4',
  'docs/checklist',
]
const CONTEXTS = [
  'ci/build',
  'ci/lint',
  'ci/mac',
  'ci/unit',
  'ci/windows',
  'deploy/preview',
  'security/audit',
]
/** Contexts of the newest commits of main that did not succeed; all others did. */
const OUTCOMES: Record<string, StatusState>[] = [
  { 'ci/mac': 'failure', 'deploy/preview': 'pending' },
  { 'ci/mac': 'failure' },
  { 'ci/mac': 'failure', 'ci/windows': 'error' },
  {},
]
const REQUIRED = ['ci/*', 'security/audit', 'launch/approval']
const DESCRIPTIONS: Record<CombinedState, string> = {
  success: 'Passed in 1 min 12 s',
  failure: '2 of 414 tests failed',
  pending: 'Waiting for a machine',
}

/** Seconds from a commit to the results of its checks. */
const CHECKED = 720
/** Hours since a commit of main. */
const hoursOf = (index: number) => 1 + index * 5

const folder = mkdtempSync(join(tmpdir(), 'screenshots-'))
const ends: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
const teardown = (end: () => unknown) => void ends.unshift(end)

/** Fills a repository and returns the commits of main, the newest first. */
function fill(path: string): string[] {
  const now = Math.floor(Date.now() / 1000)
  const commit = (branch: string, subject: string, author: string, hours: number) =>
    `commit refs/heads/${branch}\ncommitter ${author} <ci@example.org> ${now - hours * 3600} +0000\n` +
    `data ${Buffer.byteLength(subject)}\n${subject}\n`
  const main = SUBJECTS.map(([subject, author], index) =>
    commit('main', subject, author, hoursOf(index)),
  ).toReversed()
  const branches = BRANCHES.map((name, index) =>
    commit(name, `Work on ${name}`, 'Mei Tanaka', 3 + index * 20),
  )
  execFileSync('git', ['-C', path, 'fast-import', '--quiet'], { input: [...main, ...branches].join('\n') })
  return git(path, 'rev-list', 'main').split('\n')
}

async function prepare(): Promise<string[]> {
  const store = await openStore({ dataDir: folder })
  const create = (name: string) => addRepository(store, `acme/${name}`, { commits: 0 })
  const { id: repositoryId, path } = await create('rocket')
  const rocket = { id: repositoryId, owner: 'acme', name: 'rocket' }
  await asAdministrator(store).rules.set(rocket, { refPattern: 'main', required: REQUIRED, bypass: [] })
  const report = (sha: string, context: string, state: StatusState) =>
    store.statuses.report({
      repositoryId,
      sha,
      context,
      state,
      description: DESCRIPTIONS[COMBINED[state]],
      target_url: `https://ci.example.org/${context}/${sha.slice(0, 10)}`,
    })
  const commits = fill(path)
  for (const [index, sha] of commits.entries()) {
    for (const context of CONTEXTS) await report(sha, context, OUTCOMES[index]?.[context] ?? 'success')
    await passTime(store, hoursOf(index) * 3600 - CHECKED, { sha })
  }
  for (const [index, branch] of BRANCHES.entries()) {
    const sha = git(path, 'rev-parse', branch)
    for (const context of CONTEXTS.slice(0, 4))
      await report(sha, context, index === 1 ? 'pending' : index === 2 ? 'failure' : 'success')
  }
  for (const name of ['booster', 'capsule']) fill((await create(name)).path)
  await create('empty')
  await store.close()
  return commits
}

try {
  const [newest = '', , broken = ''] = await prepare()
  const { url } = await startInstance(
    { teardown },
    { dataDir: folder },
    { PUBLIC_URL: 'https://status.example.org' },
  )
  const browser = await openBrowser({ teardown })
  mkdirSync(target, { recursive: true })
  const pages: Record<string, string> = {
    repository: '/acme/rocket',
    checks: '/acme/rocket/checks',
    commit: `/acme/rocket/commits/${newest}`,
    ...(all && { repositories: '/', earlier: `/acme/rocket/commits/${broken}` }),
  }
  let total = 0
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.openContext({ colorScheme, viewport: VIEWPORT, isMobile: phone })
    const page = await context.newPage()
    const devtools = await context.newCDPSession(page)
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(url.replace('127.0.0.1', HOST) + path)
      // Playwright itself writes no WebP.
      const { data } = await devtools.send(
        'Page.captureScreenshot',
        png ? { format: 'png' } : { format: 'webp', quality: QUALITY },
      )
      const file = join(target, `${name}-${colorScheme}.${png ? 'png' : 'webp'}`)
      writeFileSync(file, Buffer.from(data, 'base64'))
      total += statSync(file).size
      process.stdout.write(`${file}: ${statSync(file).size} bytes\n`)
    }
    await context.close()
  }
  if (!all && !png && total > MAX_BYTES) {
    process.stderr.write(`the pictures have ${total} bytes together, more than ${MAX_BYTES}\n`)
    process.exitCode = 1
  }
} finally {
  for (const end of ends) await end()
}
