import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import t from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { createLogger } from '../../src/ops/logger.ts'
import { openEngine } from '../../src/store/store.ts'
import { databases } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { createAccount, csrfOf, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const LIMIT = 12
const ATTEMPTS = 100
/** Seconds. */
const WINDOW = 300

t.jobs = databases.length

for (const database of databases) {
  t.test(`two processes on ${database.name} share one budget for the API, git and sign-in`, async (t) => {
    const log: string[] = []
    const logger = createLogger('warn', { write: (line: string) => void log.push(line) })
    const server = await startServer(t, { database, logger, budget: { limit: LIMIT, window: WINDOW } })
    const { options } = server
    await createAccount(server, 'alice')
    const token = await server.createToken('alice')
    const other = await startInstance(t, options, {
      AUTH_FAILURE_LIMIT: String(LIMIT),
      AUTH_FAILURE_WINDOW: String(WINDOW),
      LOG_LEVEL: 'warn',
    })
    const servers = [server, other]
    const forms = await Promise.all(
      servers.map(async ({ url }) => {
        const client = openPageClient(url)
        return { client, csrf: csrfOf((await client.get('/login')).body) }
      }),
    )
    const api = '/api/v1/repos/alice/rocket/commits/x/statuses'
    const git = '/alice/rocket.git/info/refs?service=git-upload-pack'
    const basic = (secret: string) => `Basic ${Buffer.from(`alice:${secret}`).toString('base64')}`
    const attempts = [
      (url: string) => ask(url + api, `Bearer ${createToken()}`),
      (url: string) => ask(url + git, basic(createToken())),
      async (_url: string, { client, csrf }: (typeof forms)[number]) => {
        const form = { csrf, name: 'alice', password: 'wrong horse' }
        const { status, headers } = await client.send('POST', '/login', { form })
        return { status, retryAfter: headers.get('retry-after') }
      },
    ]
    const answers = await Promise.all(
      Array.from({ length: ATTEMPTS }, (_, index) => {
        const place = index % servers.length
        const [server, form, attempt] = [servers[place], forms[place], attempts[index % attempts.length]]
        if (!server || !form || !attempt) throw new Error('every index has one of each')
        return attempt(server.url, form)
      }),
    )
    const refused = answers.filter(({ status }) => status === 401)
    const blocked = answers.filter(({ status }) => status === 429)
    t.equal(refused.length, LIMIT)
    t.equal(blocked.length, ATTEMPTS - LIMIT)
    t.ok(refused.every(({ retryAfter }) => retryAfter === null))
    t.ok(
      blocked.every(({ retryAfter }) => /^[1-9]\d*$/.test(retryAfter ?? '') && Number(retryAfter) <= WINDOW),
    )

    const warnings = [...log, ...other.log].filter((line) => line.includes('blocked:'))
    t.equal(warnings.length, 1, 'logged once, by one process')

    const again = await ask(`${servers[0]?.url}${api}`, `Bearer ${token}`)
    t.equal(again.status, 429, 'a good credential too')
    // Shortens the wait that Retry-After asks for to one second.
    const engine = await openEngine(options)
    t.teardown(() => engine.close())
    const skipped = (Number(again.retryAfter) - 1) * 1000
    await sql`update auth_failures set ends_at = ends_at - ${sql.lit(skipped)}`.execute(engine.kysely)
    await setTimeout(1_000)
    for (const { url } of servers) {
      // The repository does not exist: 404 means that the credential was accepted.
      t.equal((await ask(url + api, `Bearer ${token}`)).status, 404)
      t.equal((await ask(url + git, basic(token))).status, 404)
      t.equal((await openPageClient(url).signIn('alice', PASSWORD)).status, 303)
    }
  })
}

async function ask(url: string, authorization: string) {
  const response = await fetch(url, { headers: { authorization } })
  await response.body?.cancel()
  return { status: response.status, retryAfter: response.headers.get('retry-after') }
}
