import t from 'tap'
import { jsonText } from '../../src/cli/parts/output.ts'
import { replaceHidden } from '../../src/util/replace-characters.ts'
import { durationInWords } from '../../src/web/assets/ages.js'
import { brokenWords } from '../../src/web/statuses/broken.ts'
import {
  cutText,
  formatAge,
  sentence,
  shownLines,
  shownName,
  shownText,
  visibleText,
} from '../../src/web/text/text.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { createAccount, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

t.test('characters that could disguise text are shown', async (t) => {
  for (let code = 0; code <= 0x1f; code++)
    t.equal(visibleText(String.fromCharCode(code)), String.fromCharCode(0x2400 + code))
  t.equal(visibleText('\x7f'), '\u2421')
  const invisible = [0xad, 0x200b, 0x2060, 0x2061, 0x2062, 0x2063, 0x2064, 0x206a, 0xfeff, 0xfff9]
  invisible.push(0x34f, 0x115f, 0x1160, 0x180b, 0x180e, 0x180f, 0x2800, 0x3164, 0xffa0, 0xfff8)
  invisible.push(0x1bca0, 0x1d173, 0xe0001, 0xe0020, 0xe007f, 0xe01ef)
  for (const code of [0x80, 0x85, 0x9f, 0x200e, 0x202a, 0x202e, 0x2028, 0x2066, 0x2069, ...invisible]) {
    const number = code.toString(16).toUpperCase().padStart(4, '0')
    const text = `a${String.fromCodePoint(code)}b`
    t.equal(visibleText(text), `a[U+${number}]b`)
    t.match(String(shownLines(text)), `a[U+${number}]b`)
    t.equal(replaceHidden(text), 'a\ufffdb', 'as in messages of git and lines of events')
    t.match(jsonText([text]), /^\["a(\\u[0-9a-f]{4}){1,2}b"\]$/)
    t.same(JSON.parse(jsonText([text])), [text])
  }
  for (const plain of ['ci/build', 'größe', 'בנייה', '构建', '👩‍👩‍👧 ok', '❤️', 'a\u200cb', '😀🏴'])
    t.equal(visibleText(plain), plain)
})

t.test('text from outside is escaped and isolated', async (t) => {
  t.equal(String(shownText('<b>\u202e"')), '<bdi>&lt;b&gt;[U+202E]&quot;</bdi>')
  t.equal(
    String(shownLines('a\r\n\tb\x1b\u2067')),
    '<div dir="auto" class="lines">a\n\tb\u241b[U+2067]</div>',
  )
})

t.test('text of nothing but spaces is in quotes wherever it is shown', async (t) => {
  for (const blank of [' ', '\u3000', ' \u00a0 ', ' '.repeat(40)]) {
    t.equal(visibleText(blank), `"${blank}"`, 'in titles, options and messages')
    const name = blank.length === 1 ? '1 space' : `${blank.length} spaces`
    const quoted = `<bdi class="blank" role="img" aria-label="${name}">${blank}</bdi>`
    t.same([String(shownText(blank)), String(shownName(blank))], [quoted, quoted], 'by the stylesheet')
  }
  for (const text of ['', ' a ']) t.equal(visibleText(text), text)
})

t.test('long text is cut between characters, and nothing of it is lost', async (t) => {
  t.equal(String(cutText('short', 5)), '<bdi>short</bdi>')
  const shown = String(cutText('ab😀cd', 3))
  t.match(shown, '<summary><bdi>ab</bdi>')
  t.match(shown, '</summary><bdi>😀cd</bdi></details>')
})

t.test('ages are relative, with the exact time', async (t) => {
  const words: Record<number, string> = {
    [-5]: '0 seconds',
    59: '59 seconds',
    60: '1 minute',
    7199: '1 hour',
    7200: '2 hours',
    86400: '1 day',
    [45 * 86_400]: '1 month',
    [800 * 86_400]: '2 years',
  }
  for (const [seconds, expected] of Object.entries(words)) t.equal(durationInWords(Number(seconds)), expected)
  const time = '2026-01-02T03:04:05Z'
  const exact = '<time datetime="2026-01-02T03:04:05Z" data-age>'
  t.equal(String(formatAge(time, Date.parse(time) + 180_000)), `${exact}3 minutes ago</time>`)
  t.equal(
    String(formatAge(time, Date.parse(time) - 180_000)),
    `${exact}just now</time>`,
    'another clock is ahead',
  )
  t.equal(
    String(formatAge(time, Date.parse(time) - 301_000)),
    `${exact}2026-01-02 03:04:05 UTC</time>`,
    'a date in the future',
  )
})

t.test('a sentence begins with a capital letter, unless a name begins it', async (t) => {
  for (const [message, expected] of [
    ['the password is long', 'The password is long.'],
    ['expires: "soon" is no duration', 'Expires: "soon" is no duration.'],
    ['alice/rocket is reserved', 'alice/rocket is reserved.'],
    ['"alice" has 1000 repositories', '"alice" has 1000 repositories.'],
  ] as const)
    t.equal(sentence(message), expected)
  const server = await startServer(t)
  await createAccount(server, 'alice')
  await server.createRepository('alice/before', { commits: 0 })
  const before = { owner: 'alice', name: 'before' }
  await asAdministrator(server.store).repositories.rename(before, { owner: 'alice', name: 'rocket' })
  const client = openPageClient(server.url)
  await client.signIn('alice')
  const form = { owner: 'alice', name: 'before', visibility: 'public' }
  const { status, body } = await client.submit(
    '/settings/repositories/new',
    '/settings/repositories/new',
    form,
  )
  t.equal(status, 422)
  t.match(body, />alice\/before is reserved: /, 'the name is exact')
})

t.test('"Sign in" returns to the page it was on', async (t) => {
  const server = await startServer(t)
  await createAccount(server, 'alice')
  await server.createRepository('alice/rocket')
  const client = openPageClient(server.url)
  const linkOf = async (path: string) =>
    /<a class="end" href="([^"]+)">Sign in</.exec((await client.get(path)).body)?.[1]
  t.equal(await linkOf('/'), '/login')
  t.equal(await linkOf('/alice/rocket?ref=a%26b'), '/login?next=%2Falice%2Frocket%3Fref%3Da%2526b')
  t.equal(await linkOf('/login?next=/docs'), '/login?next=/docs', 'and keeps it on the sign-in page')
  const form = await client.get('/login?next=%2Falice%2Frocket%3Fref%3Da%2526b')
  t.match(form.body, 'name="next" value="/alice/rocket?ref=a%26b"')
  const signedIn = await client.signIn('alice', PASSWORD, '/alice/rocket?ref=a%26b')
  t.equal(signedIn.headers.get('location'), '/alice/rocket?ref=a%26b')
})

t.test('the title of who may have broken a branch names each author', async (t) => {
  const names = ['alice', '\u00a0\u3000', '', 'bob', 'carol']
  const commits = names.map((author, index) => ({
    sha: `${index}`.repeat(40),
    parents: [],
    author,
    date: null,
    subject: 'Change it',
  }))
  const [since, lastPassed] = ['0'.repeat(40), '9'.repeat(40)]
  const newest = { state: 'failure', target_url: null, updated_at: 0 } as const
  const words = brokenWords(
    { owner: 'acme', name: 'rocket' },
    {
      context: 'ci',
      since,
      state: 'failure',
      failedAt: 0,
      newest,
      length: 1,
      lastPassed,
      unchecked: [],
      position: 0,
      suspects: { commits, more: false },
    },
  )
  t.match(String(words), 'title="alice, &quot;\u00a0\u3000&quot;, nobody, bob, carol"')
})
