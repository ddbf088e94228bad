import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { delimiter, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { asAdministrator } from '../../../test/helpers/changes.ts'
import { temporaryFolder } from '../../../test/helpers/databases.ts'
import { listenLocally } from '../../../test/helpers/free-port.ts'
import { git } from '../../../test/helpers/git.ts'
import { minimalEnvironment } from '../../../test/helpers/process.ts'
import { startServer } from '../../../test/helpers/server.ts'
import { openWorkPlace } from '../../typescript/test/helpers/working.ts'
import { recipes } from './systems.ts'

const run = promisify(execFile)
const server = await startServer(t)
const place = await openWorkPlace(t, server, 'acme/rocket')
t.setTimeout(240_000)

interface FakeRequest {
  method: string
  path: string
  headers: http.IncomingHttpHeaders
  body: string
}
type FakeAnswer = [status: number, body?: string, headers?: Record<string, string>]

/** Starts what answers in place of another system, as the real one does, and remembers its requests. */
async function startFake(t: Test, answer: (request: FakeRequest) => FakeAnswer) {
  const requests: FakeRequest[] = []
  const fake = http.createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request
    requests.push({ method, path, headers, body: await text(request) })
    const [status, body = '', own = {}] = answer(requests.at(-1) ?? { method, path, headers, body: '' })
    response.writeHead(status, own).end(body)
  })
  const url = `http://127.0.0.1:${await listenLocally(fake)}`
  t.teardown(() => fake.close())
  return { url, requests }
}

/** Starts a recipe with its settings, as the command of a worker for a new commit. */
async function start(t: Test, recipe: string, settings: string, branch = 'main') {
  const sha = place.push(branch, '')
  const { code } = await place.work(['--once'], {
    command: [join(recipes, recipe)],
    env: variables(t, recipe, settings),
  }).finished
  return { sha, code, result: await place.result(sha) }
}

/** Runs a recipe alone, which fails, and returns what it says. */
async function refusal(t: Test, recipe: string, settings: string, branch = 'main'): Promise<string> {
  const commit = { COMMIT_STATUS_SHA: '0'.repeat(40), COMMIT_STATUS_BRANCH: branch }
  const env = { ...minimalEnvironment(), ...variables(t, recipe, settings), ...commit }
  const { status, stderr } = await run(join(recipes, recipe), [], { env }).then(
    () => ({ status: 0, stderr: '' }),
    (error: { code: number; stderr: string }) => ({ status: error.code, stderr: error.stderr }),
  )
  t.equal(status, 1, stderr)
  return stderr
}

function variables(t: Test, recipe: string, settings: string): Record<string, string> {
  const file = join(temporaryFolder(t), 'settings')
  writeFileSync(file, settings, { mode: 0o600 })
  return { [`${recipe.toUpperCase().replace('-', '_')}_ENV`]: file }
}

const isBearer = ({ headers }: FakeRequest, token: string) => headers.authorization === `Bearer ${token}`

t.test('start-jenkins', async (t) => {
  const parameters = new Set(['SHA', 'BRANCH'])
  const jenkins = await startFake(t, ({ method, path, headers, body }) => {
    const given = Buffer.from(headers.authorization?.replace(/^Basic /, '') ?? '', 'base64').toString()
    if (given === 'status:not the right one') return [401]
    // With a password in place of an API token, a crumb is asked for.
    if (given !== 'status:api-token') return [403, 'No valid crumb was included in the request']
    if (path === '/job/plain/buildWithParameters') return [400, 'plain is not parameterized']
    if (path === '/job/off/buildWithParameters') return [409, 'off is not buildable']
    if (path === '/job/moved/buildWithParameters') return [302, '', { location: '/login' }]
    if (path !== '/job/rocket/buildWithParameters') return [404]
    if (method !== 'POST') return [405, 'Form post required']
    const unknown = [...new URLSearchParams(body).keys()].filter((name) => !parameters.has(name))
    return unknown.length === 0
      ? [201, '', { location: '/queue/item/5/' }]
      : [500, 'a build without parameters']
  })
  const settings = (job: string, token = 'api-token') =>
    `JENKINS_JOB=${jenkins.url}/job/${job}\nJENKINS_USER=status\nJENKINS_API_TOKEN='${token}'\n`
  const started = await start(t, 'start-jenkins', settings('rocket'), 'a&b=c"d')
  t.match(started, { code: 0, result: /^success: passed in/ })
  t.strictSame(Object.fromEntries(new URLSearchParams(jenkins.requests[0]?.body)), {
    SHA: started.sha,
    BRANCH: 'a&b=c"d',
  })
  for (const [job, token, code] of [
    ['plain', undefined, 400],
    ['off', undefined, 409],
    ['moved', undefined, 302],
    ['missing', undefined, 404],
    ['rocket', 'not the right one', 401],
    ['rocket', 'a password', 403],
  ] as const) {
    t.match(await refusal(t, 'start-jenkins', settings(job, token)), `Jenkins answered ${code}`)
  }
})

t.test('start-woodpecker', async (t) => {
  const woodpecker = await startFake(t, (request) => {
    if (!isBearer(request, 'secret')) return [401, 'User not authorized']
    if (request.method === 'GET' && request.path === '/api/repos/lookup/acme/rocket')
      return [200, '{"id":7,"forge_id":1,"full_name":"acme/rocket"}']
    if (request.method === 'GET') return [404]
    if (request.path !== '/api/repos/7/pipelines') return [403, 'User not authorized']
    const { branch, variables } = JSON.parse(request.body)
    if (typeof variables.STATUS_SHA !== 'string') return [400]
    // Its `when` excludes the event, or the branch.
    if (branch === 'filtered') return [204, '', { 'Pipeline-Filtered': 'true' }]
    return [200, JSON.stringify({ id: 9, number: 3, status: 'pending', branch })]
  })
  const settings = (repository: string, token = 'secret') =>
    `WOODPECKER_SERVER=${woodpecker.url}\nWOODPECKER_REPO=${repository}\nWOODPECKER_TOKEN=${token}\n`
  const started = await start(t, 'start-woodpecker', settings('acme/rocket'), 'a"b')
  t.match(started, { code: 0, result: /^success/ })
  t.strictSame(JSON.parse(woodpecker.requests.at(-1)?.body ?? ''), {
    branch: 'a"b',
    variables: { STATUS_SHA: started.sha },
  })
  const refused = [
    await refusal(t, 'start-woodpecker', settings('acme/rocket'), 'filtered'),
    await refusal(t, 'start-woodpecker', settings('acme/missing')),
    await refusal(t, 'start-woodpecker', settings('acme/rocket', 'wrong')),
  ]
  for (const each of refused) t.match(each, /Woodpecker (?:started nothing|does not find)/)
})

t.test('start-github', async (t) => {
  const github = await startFake(t, (request) => {
    const say = (message: string) => JSON.stringify({ message })
    if (!request.headers['user-agent']) return [403, 'Request forbidden by administrative rules']
    if (isBearer(request, 'reader')) return [403, say('Resource not accessible by personal access token')]
    if (!isBearer(request, 'secret')) return [401, say('Bad credentials')]
    if (request.path !== '/repos/acme/rocket/actions/workflows/ci.yml/dispatches')
      return [404, say('Not Found')]
    const { ref, inputs } = JSON.parse(request.body)
    if (typeof ref !== 'string') return [422, say('Invalid request.')]
    if (ref === 'unmirrored') return [422, say(`No ref found for: ${ref}`)]
    if (ref === 'old') return [422, say("Workflow does not have 'workflow_dispatch' trigger")]
    const unexpected = Object.keys(inputs).filter((name) => name !== 'sha')
    if (unexpected.length > 0) return [422, say(`Unexpected inputs provided: ${JSON.stringify(unexpected)}`)]
    if (typeof inputs.sha !== 'string') return [422, say("Required input 'sha' not provided")]
    return [204]
  })
  const settings = (token = 'secret', file = 'ci.yml') =>
    `GITHUB_WORKFLOW=${github.url}/repos/acme/rocket/actions/workflows/${file}\nGITHUB_TOKEN=${token}\n`
  const started = await start(t, 'start-github', settings(), 'a"b')
  t.match(started, { code: 0, result: /^success/ })
  t.strictSame(JSON.parse(github.requests[0]?.body ?? ''), { ref: 'a"b', inputs: { sha: started.sha } })
  const refused = [
    await refusal(t, 'start-github', settings(), 'unmirrored'),
    await refusal(t, 'start-github', settings(), 'old'),
    await refusal(t, 'start-github', settings('reader')),
    await refusal(t, 'start-github', settings('wrong')),
    await refusal(t, 'start-github', settings('secret', 'missing.yml')),
  ]
  for (const each of refused) t.match(each, /GitHub started nothing/)
})

t.test('secrets are in no arguments', (t) => {
  for (const name of ['start-jenkins', 'start-woodpecker', 'start-github', 'chat-verdicts'])
    t.notMatch(readFileSync(join(recipes, name), 'utf8'), /--(?:user|header) [^\n]*(?:TOKEN|CHAT_URL)/)
  t.end()
})

t.test('chat-verdicts', async (t) => {
  let status = 200
  const chat = await startFake(t, ({ method, headers }) =>
    method === 'POST' && headers['content-type'] === 'application/json'
      ? [status, 'ok']
      : [400, 'invalid_payload'],
  )
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'bin'))
  const cli = resolve(recipes, '../typescript/src/cli/main.ts')
  writeFileSync(join(folder, 'bin/commit-status'), `#!/bin/sh\nexec '${process.execPath}' '${cli}' "$@"\n`)
  chmodSync(join(folder, 'bin/commit-status'), 0o755)
  const { path, token } = place
  const repository = await server.store.repositories.get('acme', 'rocket')
  for (const refPattern of ['chat/*', '1.*'])
    await asAdministrator(server.store).rules.set(repository, { refPattern, required: ['ci'], bypass: [] })
  const env = {
    ...minimalEnvironment(),
    PATH: `${folder}/bin${delimiter}${process.env.PATH}`,
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_TOKEN: token,
    COMMIT_STATUS_REPO: 'acme/rocket',
    CHAT_URL: `${chat.url}/services/T0/B0/secret`,
    CHAT_STATE: join(folder, 'state'),
  }
  const post = () => run(join(recipes, 'chat-verdicts'), ['chat/*'], { env })
  const report = (sha: string, state: string) =>
    server.report('acme/rocket', sha, { state, context: 'ci' }, token)
  const posted = () => chat.requests.splice(0).map(({ body }): string => JSON.parse(body).text)

  const [sha, quoted] = [place.push('chat/main', ''), place.push('chat/a"b', '')]
  await report(sha, 'success')
  await t.rejects(
    run(join(recipes, 'chat-verdicts'), ['chat/*'], { env: { ...env, CHAT_URL: '' } }),
    /CHAT_URL: is missing/,
  )
  await post()
  t.strictSame(posted(), [], 'nothing the first time')
  await report(sha, 'failure')
  await report(quoted, 'success')
  await post()
  t.strictSame(posted(), [`acme/rocket chat/main: failure at ${sha}`])
  await post()
  t.strictSame(posted(), [], 'once')

  const next = place.push('chat/main', 'again')
  await report(quoted, 'failure')
  status = 500
  await post()
  t.equal(posted().length, 1, 'the chat is away, and the newest commit of main is pending')
  status = 200
  await post()
  t.strictSame(posted(), [`acme/rocket chat/a"b: failure at ${quoted}`], 'posted later')
  await report(next, 'success')
  await post()
  t.strictSame(posted(), [`acme/rocket chat/main: success at ${next}`])
  await report(next, 'failure')
  await run('flock', [`${env.CHAT_STATE}.lock`, join(recipes, 'chat-verdicts'), 'chat/*'], { env })
  t.strictSame(posted(), [], 'while another run is under way')
  await report(next, 'success')
  await post()
  t.strictSame(posted(), [])

  // Each pair of repository and pattern has its own file. Numbers of versions are no numbers.
  const of = (pattern: string) =>
    run(join(recipes, 'chat-verdicts'), [pattern], { env: { ...env, CHAT_STATE: '', HOME: folder } })
  const versions = ['1.1', '1.10'].map((name) => place.push(name, name))
  await report(versions[0] ?? '', 'success')
  await report(versions[1] ?? '', 'failure')
  for (const pattern of ['1.*', 'chat/*', '1.*', 'chat/*']) await of(pattern)
  t.strictSame(posted(), [], 'nothing has changed')
  await report(versions[1] ?? '', 'success')
  await of('1.*')
  t.strictSame(posted(), [`acme/rocket 1.10: success at ${versions[1]}`])

  env.COMMIT_STATUS_URL = 'http://127.0.0.1:1'
  await t.rejects(
    run(join(recipes, 'chat-verdicts'), ['chat/*'], {
      env: { ...env, COMMIT_STATUS_TIMEOUT: '1s' },
    }),
  )
  env.COMMIT_STATUS_URL = server.url
  await post()
  t.strictSame(posted(), [], 'an outage changes nothing')
  t.equal(git(path, 'rev-parse', 'chat/main'), next)
})
