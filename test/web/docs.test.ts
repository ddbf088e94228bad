import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { entries, object } from '../contract/json.ts'
import { contractFile, contractJson } from '../helpers/contract.ts'
import { startServer } from '../helpers/server.ts'
import { unescaped } from '../helpers/unescaped.ts'

const RECIPES = resolve(import.meta.dirname, '../../clients/recipes')

t.test('serves the contract unchanged', async (t) => {
  const server = await startServer(t)
  const yaml = await server.call('GET', '/openapi.yaml')
  t.equal(yaml.status, 200)
  t.match(yaml.headers.get('content-type'), /^application\/yaml\b/)
  t.equal(yaml.body, readFileSync(contractFile, 'utf8'))

  const json = await server.call('GET', '/openapi.json')
  t.equal(json.status, 200)
  t.match(json.headers.get('content-type'), /^application\/json\b/)
  const document = object(JSON.parse(json.body), 'the document')
  t.equal(document.openapi, '3.1.0')
  const operations = entries(document.paths).flatMap(([, path]) =>
    entries(path).map(([, operation]) => object(operation, 'an operation')),
  )
  t.same(operations.map(({ operationId }) => operationId).sort(), [
    'getLastPassed',
    'getVerdict',
    'listAwaiting',
    'listBranches',
    'listStatuses',
    'reportStatus',
  ])
  t.same(
    operations.map((operation) => operation['x-access']).sort(),
    ['read', 'read', 'read', 'read', 'read', 'write'],
    'including x- keys',
  )
  t.same(document.servers, [{ url: '/', description: 'This server' }])
})

t.test('every sample runs, and errors and deprecations are listed', async (t) => {
  const server = await startServer(t)
  const [SHA = ''] = (await server.createRepository('acme/rocket')).commits
  const { body } = await server.call('GET', '/docs/reference')
  const env = { ...process.env, BASE_URL: server.url, TOKEN: await server.createToken('acme'), SHA }
  const commands: Record<string, [string, ...string[]]> = {
    curl: ['sh', '-ec'],
    TypeScript: [process.execPath, '--input-type=module-typescript', '--eval'],
    Python: ['python3', '-c'],
  }
  const blocks = [...body.matchAll(/data-language="(\w+)">([^<]*)</g)]
  const expected = [
    /"state":"pending"/,
    /"statuses":\[\{/,
    /"verdict":"pending"/,
    /"branch":"main","commit":null,"looked_at":1/,
    /"branches":\[/,
    /"branches":\[\],"next":null,"left_out":0/,
  ]
  t.equal(blocks.length, expected.length * Object.keys(commands).length)
  for (const [index, [, language = '', text = '']] of blocks.entries()) {
    const [command = '', ...args] = commands[language] ?? []
    const code = unescaped(text)
    const { stdout, stderr } = await promisify(execFile)(command, [...args, code], { env })
    t.match(stdout, expected[Math.floor(index / 3)], `${language}: ${stderr}`)
  }
  const shown = [...body.matchAll(/<h3 id="(\d{3})">/g)].map(([, status]) => Number(status))
  const document = object(JSON.parse(readFileSync(contractJson, 'utf8')), 'the contract')
  const declared = entries(document.paths).flatMap(([path, item]) =>
    entries(item).flatMap(([, operation]) =>
      entries(object(operation, path).responses).map(([key]) => Number(key)),
    ),
  )
  t.ok(declared.length > 20)
  for (const status of declared.filter((status) => status >= 400)) t.ok(shown.includes(status), `${status}`)
  t.match(body, '<code>wait</code> of <code>getVerdict</code>')
  const client = await fetch(`${server.url}/assets/commit-status-client.tgz`)
  t.match(
    body,
    createHash('sha256')
      .update(await client.bytes())
      .digest('hex'),
    'of the file it hands out',
  )
  t.match(body, `This is version ${object(document.info, 'info').version} of`)
  const links = [...body.matchAll(/href="(\/[^"#]*)/g)].map(([, path = '']) => path)
  t.ok(links.includes('/assets/changelog.md'))
  for (const path of links.filter((path) => !path.startsWith('/settings')))
    t.equal((await server.call('GET', path)).status, 200, path)
})

t.test('each recipe is served as it is, and filled in for a server and a repository', async (t) => {
  const server = await startServer(t)
  const page = async (query: Record<string, string>) =>
    server.call('GET', `/docs/recipes?${new URLSearchParams(query)}`)
  const { body } = await page({})
  const files = readdirSync(RECIPES, { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'README.md')
    .map(({ name }) => name)
  t.ok(files.length > 20)
  for (const file of files) {
    const text = readFileSync(join(RECIPES, file), 'utf8')
    t.match(body, `href="/docs/recipes?file=${file}#file"`, `the README lists ${file}`)
    t.equal((await server.call('GET', `/assets/recipes/${file}`)).body, text)
    const shown = /<pre id="recipe"[^>]*>([^<]*)/.exec(
      (await page({ file, repository: 'alice/x.y' })).body,
    )?.[1]
    const expected = text
      .replaceAll('https://status.example.org', server.url)
      .replaceAll('acme/rocket', 'alice/x.y')
    t.equal(unescaped(shown ?? ''), expected, file)
  }
  const { body: chosen } = await page({ file: 'mirror' })
  t.match(chosen, '<input type="hidden" name="file" value="mirror">', '"Fill in" stays at the file')
  const [, copied] = /<button[^>]* data-copy="([^"]*)"/.exec(chosen.slice(chosen.indexOf('id="file"'))) ?? []
  t.equal(copied, 'recipe', 'Copy takes the file')
  const { body: notes } = await server.call('GET', '/assets/recipes/README.md')
  for (const [, path = ''] of notes.matchAll(/\]\(([\w-][^)#:]*)/g))
    t.equal((await server.call('GET', `/assets/recipes/${path}`)).status, 200, path)
  const wordsOf = (text: string) => text.match(/\w+/g)
  const idsIn = (html: string) => [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
  const { body: client } = await server.call('GET', '/assets/client.md')
  for (const [path, text] of [
    ['/docs/recipes/notes', notes],
    ['/docs/client', client],
  ] as const) {
    const filledIn = text
      .slice(text.indexOf('\n## '))
      .replaceAll('https://status.example.org', server.url)
      .replaceAll('https://mirror@status.example.org', server.url.replace('//', '//mirror@'))
      .replaceAll('acme/rocket', 'alice/x.y')
    const { body } = await server.call('GET', `${path}?repository=alice/x.y`)
    const content = body.slice(body.indexOf('<h2'), body.indexOf('</main>'))
    t.same(
      wordsOf(unescaped(content.replace(/<[^>]*>/g, ' '))),
      wordsOf(filledIn.replace(/\]\([^)]*\)|^```\w+$|^\d\. /gm, ' ')),
      `${path} has all words of the document`,
    )
    const prose = content.replace(/<(pre|code)\b.*?<\/\1>/gs, '')
    t.notMatch(content, '<th scope="col"></th>', 'a column without a heading has none')
    t.notMatch(prose, /`|\]\(|^#|^\||^- |^\d\. |\*\*/m, 'and none of its marks')
    for (const [, target = ''] of content.matchAll(/href="([^"]*)"/g)) {
      const [page = '', id] = unescaped(target).split('#')
      if (page.startsWith('https:')) continue
      const linked = page === '' ? content : (await server.call('GET', page)).body
      if (id !== undefined) t.ok(idsIn(linked).includes(id), target)
      if (page.startsWith('/docs/')) t.match(target, 'repository=alice%2Fx.y', 'for the same repository')
    }
  }
  const former = await server.call('GET', '/assets/recipes.md')
  t.same([former.status, former.headers.get('location')], [301, '/assets/recipes/README.md'])

  for (const file of ['../README.md', 'test', 'README.md', 'x'])
    t.equal((await page({ file })).status, 404, file)
  for (const repository of ['rocket', 'a/b/c', 'docs/x', 'a/<b>', '$&/x', 'a/x.git']) {
    const refused = await page({ file: 'mirror', repository })
    t.equal(refused.status, 422, repository)
    t.match(refused.body, 'This is not the name of a repository')
    t.match(refused.body, 'https://git.example.org/acme/rocket.git', 'nothing is filled in')
  }
})

t.test('the API docs load nothing from other hosts', async (t) => {
  const server = await startServer(t)
  const page = await server.call('GET', '/docs')
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), /^text\/html\b/)

  const assets = referencesOf(page.body)
  t.ok(assets.length >= 7, 'styles and scripts')
  for (const reference of assets) {
    t.match(reference, /^\/[^/]/, 'a path on this host')
    const asset = await server.call('GET', reference)
    t.equal(asset.status, 200, reference)
    if (!/\.css/.test(reference)) continue
    const urls = [...asset.body.matchAll(/url\(\s*["']?([^"')]+)/g)].map(([, url = '']) => url)
    t.same(
      urls.filter((url) => !url.startsWith('data:') && /^(\w+:)?\/\//.test(url)),
      [],
      `${reference} names no other host`,
    )
    t.notMatch(asset.body, /@import/)
  }
})

t.test('the content security policy of each page forbids inline scripts and other hosts', async (t) => {
  const server = await startServer(t)
  for (const path of ['/', '/login', '/docs', '/nope', '/alice/none']) {
    const { headers } = await server.call('GET', path, { headers: { accept: 'text/html' } })
    const policy = directives(headers.get('content-security-policy') ?? '')
    t.same(policy.get('default-src'), ["'none'"], `${path}: only what is listed`)
    t.same(policy.get('base-uri'), ["'none'"])
    t.same(policy.get('frame-ancestors'), ["'none'"])
    for (const [name, sources] of policy)
      for (const source of sources)
        t.match(source, /^('none'|'self'|'sha256-[\w+/=]+'|data:)$/, `${path}, ${name}: nothing unsafe`)
    t.same(policy.get('script-src'), ["'self'"], 'no inline script')
    t.notOk(policy.has('upgrade-insecure-requests'), 'it works over plain http')
  }
})

/** Parses a policy: sources by directive. */
function directives(policy: string): Map<string, string[]> {
  return new Map(
    policy.split(';').map((directive) => {
      const [name = '', ...sources] = directive.trim().split(/\s+/)
      return [name, sources]
    }),
  )
}

/** Returns the URLs that the page loads. */
function referencesOf(html: string): string[] {
  const tags = html.match(/<(?:link|script|img|iframe|source|div)\b[^>]*>/g) ?? []
  return tags.flatMap((tag) =>
    [...tag.matchAll(/\b(?:href|src|data-style|data-script)="([^"]*)"/g)].map(([, url = '']) => url),
  )
}
