import { globSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { startServer } from '../helpers/server.ts'
import { readDocument } from './machine.ts'

/**
 * What documents tell people to install, run or open is ours, reserved for examples, or a known
 * project's: a name that nobody has taken would run somebody else's code in our users' CI.
 */
const root = resolve(import.meta.dirname, '../..')
const DOCUMENTS = [
  'README.md',
  'CHANGELOG.md',
  'openapi.yaml',
  '.github/**/*.{md,yml}',
  'src/**/README.md',
  'src/packaging/{Containerfile,compose.yaml}',
  'test/**/*.md',
  'clients/*/*.md',
  'clients/recipes/*',
  'clients/shell/commit-status',
]
/** Hosts of projects that documents name, and what they are named for. */
const KNOWN_HOSTS = new Set([
  'accounts.google.com',
  'agentskills.io',
  'api.github.com',
  'github.com',
  'keepachangelog.com',
  'login.microsoftonline.com',
  'nodejs.org',
  'semver.org',
])
/** Images that Docker itself maintains. */
const OFFICIAL_IMAGES = ['buildpack-deps', 'debian', 'node', 'postgres']
const INSTALL = '/assets/commit-status-client.tgz'

/** Returns what in a text leads to a name that somebody else could take. */
function claimable(text: string): string[] {
  return [...hosts(text), ...packages(text), ...images(text), ...actions(text), ...imports(text)]
}

function hosts(text: string): string[] {
  return [...text.matchAll(/https?:\/\/([^\s/"'`<>()|;,\\]+)/g)]
    .map(([, authority = '']) => authority.replace(/^.*@/, '').replace(/:[\dA-Z]*\.?$/, ''))
    .filter((host) => !isReserved(host) && !KNOWN_HOSTS.has(host))
}

/** Whether a host is one for examples, of this machine or network, or the value of a variable. */
function isReserved(host: string): boolean {
  return /^(?:.*\.)?example\.(?:org|com)$|^(?:[\w-]+|127\.0\.0\.1|\[::1\]|\d.*|[A-Z_]+|.*[$…{*].*)\.?$/.test(
    host,
  )
}

/** What is installed or run from a registry by its bare name. */
function packages(text: string): string[] {
  const installs = text.matchAll(
    /\b(?:npm (?:install|i|add|exec)|pnpm add|yarn add|bun add|pip install)\b([^\n`<]*)/g,
  )
  const installed = [...installs].flatMap(([line, rest = '']) =>
    words(rest)
      .filter((word) => /^@?[a-z]/.test(word) && !word.includes('://'))
      .map((word) => `${line}: ${word}`),
  )
  const runs = [...text.matchAll(/\bnpx ([^\n`<]*)/g)].filter(([, rest = '']) => /^[@a-z]/.test(rest))
  return [...installed, ...runs.map(([line]) => line)].filter(
    (line) => line !== WARNED_OF && !line.startsWith('npx node '),
  )
}

/** What the client's README warns of. `npx node` runs what `npm ci` has installed. */
const WARNED_OF = 'npx commit-status'

function words(text: string): string[] {
  return text.split(/[\s"']+/).filter((word) => word !== '')
}

function images(text: string): string[] {
  const named = text.matchAll(
    /^[\s#]*(?:-\s*)?(?:image|container|FROM)(?::\s*|\s+)(?!:)['"]?([a-z][\w./:-]*)/gm,
  )
  return [...named]
    .map(([, image = '']) => image)
    .filter((image) => {
      const name = image.replace(/:[\w.-]+$/, '')
      if (/^(?:registry\.example\.org|localhost)\//.test(name)) return false
      return !OFFICIAL_IMAGES.includes(name.replace(/^docker\.io\/library\//, '')) && name !== 'base'
    })
}

function actions(text: string): string[] {
  return [...text.matchAll(/\buses: (\S+)/g)]
    .map(([, name = '']) => name)
    .filter((name) => !name.startsWith('actions/'))
}

/** Blocks of code that import the client without saying how it is installed. */
function imports(text: string): string[] {
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```$|data-language="TypeScript">([^<]*)/gm)]
  return blocks
    .map(([, markdown, page]) => markdown ?? page ?? '')
    .filter((block) => block.includes('@commit-status/client') && !block.includes(INSTALL))
}

t.test('documents', async (t) => {
  const paths = globSync(DOCUMENTS, { cwd: root, exclude: ['**/node_modules', '**/dist'] })
  const documents = paths.filter((path) => path !== 'clients/recipes/test').sort()
  t.ok(documents.length > 30)
  for (const path of documents) t.strictSame(claimable(readDocument(path)), [], path)
})

t.test('pages', async (t) => {
  const server = await startServer(t)
  for (const path of ['/docs', '/docs/reference', '/docs/recipes'])
    t.strictSame(claimable((await server.call('GET', path)).body), [], path)
})

t.test('what documents download from a server is there', async (t) => {
  const server = await startServer(t)
  const paths = globSync(DOCUMENTS, { cwd: root, exclude: ['**/node_modules', '**/dist'] })
  const named = paths
    .filter((path) => path !== 'clients/recipes/test')
    .flatMap((path) => readDocument(path).match(/\/assets\/[\w./-]*\w/g) ?? [])
  t.ok(named.length > 20)
  for (const path of new Set(named))
    if (path !== '/assets/recipes') t.ok((await server.call('GET', path)).status < 400, path)
})

t.test('what could be taken is found', async (t) => {
  for (const text of [
    'https://commit-status.dev/install.sh',
    'npm install @commit-status/client',
    'npm install --global commit-status',
    'npx commit-statuses run',
    'npx @commit-status/client report',
    '  image: ghcr.io/acme/commit-status:1\n',
    'FROM commit-status-server\n',
    '      - uses: acme/report@v1\n',
    "```ts\nimport { createClient } from '@commit-status/client'\n```\n",
  ])
    t.equal(claimable(text).length, 1, text)
})
