import { setTimeout } from 'node:timers/promises'
import { asAdministrator } from '../helpers/changes.ts'
import { createCommits } from '../helpers/git.ts'
import { holdRequest } from '../helpers/held-request.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import type { TestServer } from '../helpers/server.ts'

const REPO = 'acme/rocket'
const NAME = { owner: 'acme', name: 'rocket' }
/** Milliseconds after which a report asks again whether it may be stored. */
const AGAIN = 1_000

export type World = Awaited<ReturnType<typeof createWorld>>
/** Does something to a commit whose checks only `ci-bot` may report. */
type Way = (world: World, sha: string) => Promise<unknown>

const green = { state: 'success', context: 'ci/all' }
const sendAll =
  (...bodies: (object | string)[]): Way =>
  async ({ writer }, sha) => {
    for (const body of bodies) await writer.send(sha, body)
  }
const inContext = (context: string) => sendAll({ state: 'success', context })

/** Creates `acme/rocket`, whose `main` requires checks, an owner, a writer and the user of CI. */
export async function createWorld(server: TestServer, commits: number) {
  const { store, url, createToken } = server
  const write = asAdministrator(store)
  await createAccount(server, 'acme')
  const { id, path } = await server.createRepository(REPO)
  const person = async (name: string) => {
    const id = await createAccount(server, name)
    await write.collaborators.set(NAME, id, 'write')
    const token = await createToken(name, { name })
    const browser = openPageClient(url)
    await browser.signIn(name)
    /** Sends a report, whatever its path, headers and body are. */
    const send = async (sha: string, body: object | string, more: Sending = {}) => {
      const response = await fetch(
        `${url}/api/v1/repos/${more.repo ?? REPO}/statuses/${sha}${more.query ?? ''}`,
        {
          method: more.method ?? 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...more.headers },
          body: typeof body === 'string' ? body : JSON.stringify(body),
        },
      )
      return { status: response.status, text: await response.text() }
    }
    return { id, token, browser, send }
  }
  const [bot, writer] = [await person('ci-bot'), await person('writer')]
  await write.rules.set(NAME, { refPattern: 'main', required: ['ci/all', 'ci/*'], bypass: [] })
  return {
    ...server,
    write,
    id,
    path,
    bot,
    writer,
    /** Commits of a branch without rules. */
    shas: createCommits(path, commits, 'topic'),
    reserve: (users: { id: number; name: string }[] | null = [{ id: bot.id, name: 'ci-bot' }]) =>
      write.reservations.set(NAME, 'ci/*', users),
    /** The state of a commit by the rule of `main`. */
    async verdict(sha: string) {
      const { json } = await server.call('GET', `/api/v1/repos/${REPO}/commits/${sha}/verdict?branch=main`, {
        token: writer.token,
      })
      return json.verdict
    },
  }
}

interface Sending {
  method?: string
  headers?: Record<string, string>
  repo?: string
  query?: string
}

/** Sends a form of a page that a writer may see, whatever it is for. */
const sendForm =
  (action: string, fields: Record<string, string>): Way =>
  ({ writer }) =>
    writer.browser.submit('/settings/account', action, fields)

/** Asks in the browser for another run of a check that a worker has claimed. */
const runAgain: Way = async ({ bot, writer, store, id }, sha) => {
  await bot.send(sha, { context: 'ci/all', state: 'pending', run: 'claimed', claim: 300, elapsed: 0 })
  const rows = await store.statuses.list(id, sha)
  const status = rows.find(({ context }) => context === 'ci/all')?.id ?? ''
  await writer.browser.submit('/settings/account', `/acme/rocket/commits/${sha}`, { status })
}

const together =
  (...ways: Way[]): Way =>
  async (world, sha) => {
    for (const way of ways) await way(world, sha)
  }

/** Sends a report whose body ends only after somebody was named who may report. */
const lateBody: Way = async ({ writer, reserve, url }, sha) => {
  await reserve(null)
  const body = JSON.stringify(green)
  const headers = { authorization: `Bearer ${writer.token}`, 'content-type': 'application/json' }
  const held = await holdRequest('POST', `${url}/api/v1/repos/${REPO}/statuses/${sha}`, headers, body.length)
  held.send(body.slice(0, -1))
  await reserve()
  await setTimeout(AGAIN + 100)
  await held.finish(body.slice(-1))
}

/** Sends reports while contexts become reserved: those that begin afterwards must change nothing. */
const raceWithSetting: Way = async ({ writer, bot, reserve, store, id, write }, sha) => {
  await reserve(null)
  const early = Array.from({ length: 5 }, () => writer.send(sha, green))
  const set = reserve()
  const between = Array.from({ length: 5 }, () => writer.send(sha, green))
  await set
  const late = Array.from({ length: 5 }, () => writer.send(sha, green))
  const answers = await Promise.all(late)
  await Promise.all([...early, ...between])
  if (answers.some(({ status }) => status !== 403)) return
  // What was stored before is what the setting does not undo: it is listed, and deleted.
  for (const result of await store.statuses.listResults(id, [sha]))
    if (result.user === 'writer') await write.statuses.delete({ repositoryId: id, sha }, result.context)
  await bot.send(sha, { ...green, state: 'failure' })
}

/** Ways of a writer to let `main` take a commit whose checks have failed or not reported. */
export const TO_GREEN: Record<string, Way> = {
  'a result': sendAll(green),
  'a result of a run': sendAll({ ...green, run: 'w' }),
  'a result of the run of CI': sendAll({ ...green, run: 'ci-run', elapsed: 0 }),
  'a result with a claim': sendAll({ ...green, run: 'w', claim: 300 }),
  'a claim, and its result': sendAll(
    { ...green, state: 'pending', run: 'w', claim: 300 },
    { ...green, run: 'w', claim: 300 },
  ),
  'a pending, and a result': sendAll({ ...green, state: 'pending' }, green),
  'a pending, and a result of a run': sendAll(
    { ...green, state: 'pending' },
    { ...green, run: 'w', elapsed: 0 },
  ),
  'a pending with an empty run': sendAll({ ...green, state: 'pending', run: '' }, { ...green, run: '' }),
  'a pending whose run is null': sendAll({ ...green, state: 'pending', run: null }, { ...green, run: null }),
  'a pending with a claim and no run': sendAll(
    { ...green, state: 'pending', claim: 300 },
    { ...green, claim: 300 },
  ),
  'a result of an old run': sendAll({ ...green, run: 'w', elapsed: 600_000 }),
  'upper case': inContext('CI/ALL'),
  'one letter in upper case': inContext('ci/All'),
  'full width': inContext('ci/ａｌｌ'),
  'full width, also before the slash': inContext('ｃｉ/all'),
  'a Cyrillic letter': inContext('сi/all'),
  'a combining letter': inContext('ci/a\u0300ll'),
  'a character without width': inContext('ci/all\u200b'),
  'a space at the end': inContext('ci/all '),
  'a space at the beginning': inContext(' ci/all'),
  'a line feed': inContext('ci/all\n'),
  'a null character': inContext('ci/all\0'),
  'a lone surrogate': sendAll('{"state":"success","context":"ci/all\\ud800"}'),
  'escapes of JSON': sendAll('{"state":"success","context":"\\u0063i\\/all"}'),
  'another context that the required pattern matches': inContext('ci/zzz'),
  'the shortest one': inContext('ci/'),
  'the pattern as a context': sendAll(
    { state: 'success', context: 'ci/*' },
    { state: 'success', context: '*' },
  ),
  'the context twice': sendAll('{"context":"lint","state":"success","context":"ci/all"}'),
  'the state twice': sendAll('{"context":"ci/all","state":"pending","state":"success"}'),
  'fields of a stored row': sendAll({
    ...green,
    context: 'lint',
    repository_id: 1,
    reporter_id: 1,
    run_report: 'x',
    Context: 'ci/all',
  }),
  'a body with fields of the server': sendAll({
    ...green,
    state: 'pending',
    statusId: 1,
    status: green,
    stored: { state: 'success' },
  }),
  'a query': ({ writer }, sha) =>
    writer.send(sha, { context: 'lint', state: 'success' }, { query: '?context=ci/all&state=success' }),
  'another spelling of the commit': ({ writer }, sha) => writer.send(sha.toUpperCase(), green),
  'another spelling of the repository': ({ writer }, sha) => writer.send(sha, green, { repo: 'ACME/Rocket' }),
  'a name with dots and escapes': ({ writer }, sha) => writer.send(sha, green, { repo: 'acme/x/../rocket' }),
  'another method': async ({ writer }, sha) => {
    for (const method of ['PUT', 'PATCH']) await writer.send(sha, green, { method })
    await writer.send(sha, green, { headers: { 'x-http-method-override': 'PUT' } })
  },
  'a form instead of JSON': ({ writer }, sha) =>
    writer.send(sha, 'state=success&context=ci/all', {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    }),
  'the name of CI with the own token': ({ writer }, sha) =>
    writer.send(sha, green, {
      headers: { authorization: `Basic ${Buffer.from(`ci-bot:${writer.token}`).toString('base64')}` },
    }),
  'a token with the name of CI': async ({ writer, createToken }, sha) => {
    const token = await createToken('writer', { name: 'ci-bot' })
    await writer.send(sha, green, { headers: { authorization: `Bearer ${token}` } })
  },
  'a token that is limited to the context': async ({ writer, createToken }, sha) => {
    const token = await createToken('writer', { limits: { contexts: ['ci/all'] } })
    await writer.send(sha, green, { headers: { authorization: `Bearer ${token}` } })
  },
  'a token of before': async ({ writer, createToken, reserve }, sha) => {
    await reserve(null)
    const token = await createToken('writer', { name: 'old' })
    await reserve()
    await writer.send(sha, green, { headers: { authorization: `Bearer ${token}` } })
  },
  'a revoked token of CI': async ({ writer, createToken, bot, store, write }, sha) => {
    const secret = await createToken('ci-bot', { name: 'leaked' })
    const leaked = (await store.tokens.list(bot.id)).find(({ name }) => name === 'leaked')
    await write.tokens.revoke(leaked?.id ?? '')
    await writer.send(sha, green, { headers: { authorization: `Bearer ${secret}` } })
  },
  'a token of a new user with the name of one that was named': async (
    { writer, createToken, write, bot, ...world },
    sha,
  ) => {
    const id = await createAccount(world, 'helper')
    await world.reserve([
      { id: bot.id, name: 'ci-bot' },
      { id, name: 'helper' },
    ])
    await write.users.delete('helper')
    await write.collaborators.set(NAME, await createAccount(world, 'helper'), 'write')
    const headers = { authorization: `Bearer ${await createToken('helper')}` }
    await writer.send(sha, green, { headers })
    await world.reserve()
    await writer.send(sha, green, { headers })
    await write.users.delete('helper')
  },
  'a late body': lateBody,
  'a race with setting it': raceWithSetting,
  'many reports at once, among those of CI': async ({ writer, bot }, sha) => {
    const sent = Array.from({ length: 30 }, (_, index) =>
      index % 3 === 0 ? bot.send(sha, { ...green, state: 'failure' }) : writer.send(sha, green),
    )
    await Promise.all(sent)
    await bot.send(sha, { ...green, state: 'failure' })
  },
  '"Run again"': together(runAgain, sendAll(green)),
  '"Run again", and the claimed run': together(runAgain, sendAll({ ...green, run: 'claimed', elapsed: 0 })),
  'a form that sends a result': ({ writer }, sha) =>
    writer.browser.submit('/settings/account', `/acme/rocket/commits/${sha}`, {
      ...green,
      status: green.context,
    }),
  'a form that reserves it for the writer': sendForm('/acme/rocket/settings/checks', {
    change: 'reserve',
    pattern: 'ci/*',
    users: 'writer',
    seen: '["ci-bot"]',
  }),
  'a form that opens it, and a result': together(
    sendForm('/acme/rocket/settings/checks', { change: 'open', pattern: 'ci/*', seen: '["ci-bot"]' }),
    sendAll(green),
  ),
  'a form that removes the rule': sendForm('/acme/rocket/settings/checks', {
    change: 'remove',
    branch: 'main',
    seen: '{"required":["ci/all","ci/*"],"bypass":[]}',
  }),
  'a form that renames the repository, and a result': together(
    sendForm('/acme/rocket/settings', { change: 'name', owner: 'writer', name: 'rocket' }),
    ({ writer }, sha) => writer.send(sha, green, { repo: 'writer/rocket' }),
  ),
  'the results of a repository of the same name': together(
    sendForm('/settings/repositories/new', {
      owner: 'writer',
      name: 'rocket',
      visibility: 'public',
      'object-format': 'sha1',
    }),
    ({ writer }, sha) => writer.send(sha, green, { repo: 'writer/rocket' }),
  ),
}

const pending = { ...green, state: 'pending' }
const times =
  (count: number, way: Way): Way =>
  (world, sha) =>
    Promise.all(Array.from({ length: count }, () => way(world, sha)))

/** Ways of a writer to keep the reports of CI from being stored, also after the last one of them. */
export const TO_STOP: Record<string, Way> = {
  'a pending': sendAll(pending),
  'many at once': times(30, sendAll(pending)),
  'one with all fields': sendAll({
    ...pending,
    description: 'x'.repeat(140),
    target_url: 'https://example.org/',
  }),
  'a claim': sendAll({ ...pending, run: 'w', claim: 300 }),
  'a claim of the run of CI': sendAll({ ...pending, run: 'ci-run', claim: 300, elapsed: 0 }),
  'a claim without a run': sendAll({ ...pending, claim: 300 }),
  'an empty run': sendAll({ ...pending, run: '' }),
  'a run of the future': sendAll(
    { ...pending, run: 'w', elapsed: -600_000 },
    { ...green, run: 'w', elapsed: -1 },
  ),
  'a run of long ago': sendAll({ ...pending, run: 'ci-run', elapsed: 86_400_000 }),
  'a result of a new run': sendAll({ ...green, state: 'failure', run: 'w', elapsed: 0 }),
  'a result without one': sendAll({ ...green, state: 'error' }),
  'results of other spellings': together(inContext('CI/ALL'), inContext('ci/all '), inContext('ci/ａll')),
  'other contexts up to the limit': async ({ writer }, sha) => {
    for (let index = 0; index < 40; index++) await writer.send(sha, { state: 'success', context: `${index}` })
  },
  '"Run again"': runAgain,
  '"Run again", again and again': times(5, runAgain),
  'a form that reserves it for the writer': sendForm('/acme/rocket/settings/checks', {
    change: 'reserve',
    pattern: 'ci/*',
    users: 'writer',
    seen: '["ci-bot"]',
  }),
  'a form that reserves a wider pattern': sendForm('/acme/rocket/settings/checks', {
    change: 'reserve',
    pattern: '*',
    users: 'writer',
    seen: 'null',
  }),
  'a form that takes the access of CI': sendForm('/acme/rocket/settings/access', {
    user: 'ci-bot',
    access: 'none',
    from: 'write',
  }),
  'a form that revokes its token': async (world, sha) => {
    const [token] = await world.store.tokens.list(world.bot.id)
    await sendForm(`/settings/tokens/${token?.id}/revoke`, {})(world, sha)
  },
  'a form that renames the repository': sendForm('/acme/rocket/settings', {
    change: 'name',
    owner: 'acme',
    name: 'missile',
  }),
  'a form that deletes the repository': sendForm('/acme/rocket/settings', {
    change: 'delete',
    confirm: 'acme/rocket',
  }),
  'bodies that do not end': async ({ writer, url }, sha) => {
    const headers = { authorization: `Bearer ${writer.token}`, 'content-type': 'application/json' }
    const path = `${url}/api/v1/repos/acme/rocket/statuses/${sha}`
    const held = await Promise.all(Array.from({ length: 10 }, () => holdRequest('POST', path, headers, 100)))
    for (const request of held) request.send('{')
    await setTimeout(100)
    await Promise.all(held.map((request) => request.finish(' '.repeat(99))))
  },
  'bodies that are none': sendAll('{', '[]', '{}', 'x'.repeat(20_000)),
}
