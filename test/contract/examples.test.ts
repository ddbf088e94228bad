import { rename } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { contractFile } from '../helpers/contract.ts'
import { git, importCommits } from '../helpers/git.ts'
import { createAccount } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { entries, type Json, type JsonObject, list, object, text } from './json.ts'
import { readContract } from './spec.ts'

const { document } = await readContract(contractFile)
const parts = object(document.components, 'components')
const { owner, repo, sha: exampleSha } = parameterExamples(parts.parameters)
/** Each operation as the contract writes it, with its path. */
const operations = entries(document.paths).flatMap(([path, item]) =>
  entries(item).map(([method, value]) => ({ path, method, ...readOperation(object(value, path)) })),
)

/** Returns the texts of all examples of errors by name. */
function exampleTexts(): Record<string, string> {
  const examples = entries(parts.responses).flatMap(([name, response]) => {
    const content = object(object(response, name).content, name)
    return entries(object(content['application/json'], name).examples)
  })
  return Object.fromEntries(
    examples.map(([name, example]) => {
      const { error } = object(object(example, name).value, name)
      return [name, text(error, name)]
    }),
  )
}

t.test('examples of errors equal the messages of the server', async (t) => {
  const server = await startServer(t)
  const repository = await server.createRepository('acme/rocket')
  const [sha = ''] = repository.commits
  const away = await server.createRepository('acme/away')
  const token = await server.createToken('acme')
  const stranger = await server.createToken('stranger')
  const scopeless = await server.createToken('acme', { scopes: [] })
  const elsewhere = await server.createToken('acme', { limits: { repositories: [0] } })
  const ci = await server.createToken('acme', { limits: { contexts: ['ci/*', 'build'] } })
  const [good, unknown] = [{ state: 'success' }, 'f'.repeat(40)]
  const headers = { 'content-type': 'text/plain' }
  const ofRun = (state: string, run: string, elapsed = 0) =>
    server.report('acme/rocket', sha, { state, context: 'runs', run, elapsed }, token)
  await ofRun('success', 'newer')
  const claim = (context: string, state: string, run: string) =>
    server.report('acme/rocket', sha, { state, context, run, claim: 300 }, token)
  await claim('held', 'pending', '5f0c2a9e')
  await server.report('acme/rocket', sha, { state: 'pending', context: 'asked' }, token)
  const write = asAdministrator(server.store)
  const bot = { id: await createAccount(server, 'ci-bot'), name: 'ci-bot' }
  const reserving = { owner: 'acme', name: 'rocket' }
  await write.collaborators.set(reserving, bot.id, 'write')
  await write.reservations.set(reserving, 'ci/all', [bot])
  git(repository.path, 'update-ref', 'refs/heads/docs', sha)
  const report = `/api/v1/repos/acme/rocket/statuses/${sha}`
  await rename(away.path, `${away.path}.away`)

  const strict = await startServer(t, { budget: { limit: 1, window: 43 } })
  await strict.call('POST', report, { token: 'wrong', body: good })

  const answers = {
    notJson: server.call('POST', report, { token, body: '{' }),
    noToken: server.report('acme/rocket', sha, good),
    badToken: server.report('acme/rocket', sha, good, 'unknown'),
    noScope: server.report('acme/rocket', sha, good, scopeless),
    readOnly: server.report('acme/rocket', sha, good, stranger),
    otherRepositories: server.report('acme/rocket', sha, good, elsewhere),
    otherContexts: server.report('acme/rocket', sha, { ...good, context: 'deploy' }, ci),
    reserved: server.report('acme/rocket', sha, { ...good, context: 'ci/all' }, token),
    noRepository: server.report('acme/missing', sha, good, token),
    noCommit: server.report('acme/rocket', unknown, good, token),
    noBranch: server.call('GET', '/api/v1/repos/acme/rocket/last-passed?branch=mian'),
    notOnBranch: server.call('GET', `/api/v1/repos/acme/rocket/last-passed?branch=main&after=${exampleSha}`),
    superseded: ofRun('success', 'older', 60_000),
    late: ofRun('pending', 'newer'),
    claimed: claim('held', 'pending', 'other'),
    ended: claim('runs', 'pending', 'other'),
    requested: claim('asked', 'success', 'other'),
    tooLarge: server.call('POST', report, { token, body: ' '.repeat(16_385) }),
    wrongType: server.call('POST', report, { token, headers, body: '{}' }),
    tooLong: server.report('acme/rocket', sha, { ...good, context: 'x'.repeat(261) }, token),
    abbreviated: server.read('acme/rocket', '2c26b46'),
    noChecks: server.call('GET', '/api/v1/repos/acme/rocket/last-passed?branch=docs'),
    blocked: strict.call('POST', report, { token: 'wrong', body: good }),
    unavailable: server.read('acme/away', away.commits[0] ?? '', token),
  }
  const texts = await Promise.all(
    Object.entries(answers).map(async ([name, answer]) => [name, text((await answer).json.error, name)]),
  )
  const said = Object.fromEntries(texts)
  // The duration of a block varies.
  said.blocked = said.blocked.replace(/\d+/, '42')
  t.same(exampleTexts(), said)

  const { headers: challenge } = await answers.noToken
  const { headers: block } = await answers.blocked
  const { headers: read } = await server.read('acme/rocket', sha)
  const { headers: examples } = parts
  const shown = Object.fromEntries(
    entries(examples).flatMap(([name, header]) => {
      const { example } = object(header, name)
      return example === undefined ? [] : [[name, example]]
    }),
  )
  t.equal(shown['WWW-Authenticate'], challenge.get('www-authenticate'))
  t.same(shape(shown['Retry-After']), shape(block.get('retry-after')))
  for (const name of ['ETag', 'X-Request-Id']) t.same(shape(shown[name]), shape(read.get(name)), name)
  t.equal(parameterExamples(parts.parameters)['If-None-Match'], shown.ETag, 'the validator is sent back')
  const page = await server.call('GET', '/api/v1/repos/acme/rocket/branches?limit=1')
  t.equal(shown.Link, page.headers.get('link')?.replace('after=docs', 'after=main'))
  t.same(Object.keys(shown), ['ETag', 'Link', 'X-Request-Id', 'Retry-After', 'WWW-Authenticate'])
})

t.test('examples of successes are answers of the server, and links lead on', async (t) => {
  const server = await startServer(t)
  const name = `${owner}/${repo}`
  const repository = await server.createRepository(name, { commits: 2 })
  const [sha = '', other = ''] = repository.commits
  const token = await server.createToken('acme')
  const [report, , verdict] = operations
  const { started, passed, claim, shortest } = exampleValues(object(report?.requestBody, 'the body'))
  const send = (body: unknown) => server.report(name, sha, body, token)
  const decide = async (commit: string, ...required: string[]) => {
    const query = required.map((pattern) => `require=${encodeURIComponent(pattern)}`).join('&')
    const { json } = await server.call('GET', `/api/v1/repos/${name}/commits/${commit}/verdict?${query}`)
    return json
  }

  await send(started)
  // Times are whole seconds.
  await setTimeout(1_001)
  await send({ state: 'pending', context: 'ci/lint' })
  await setTimeout(1_001)
  const stored = await send(passed)
  const answers: Record<string, unknown> = {
    'reportStatus passed': stored.json,
    'listStatuses pending': (await server.read(name, sha)).json,
    'listStatuses unreported': (await server.read(name, other)).json,
  }
  await setTimeout(1_001)
  const claimed = await server.report(name, other, claim, token)
  await asAdministrator(server.store).statuses.delete({ repositoryId: repository.id, sha: other }, 'ci')
  // In the examples there is one commit.
  answers['reportStatus claimed'] = { ...claimed.json, sha }
  await send({ state: 'success', context: 'ci/lint' })
  const { require } = parameterExamples(verdict?.parameters)
  answers['getVerdict missing'] = await decide(sha, ...list(require).map(String))
  answers['getVerdict passed'] = await decide(sha, 'ci/build')
  answers['getVerdict unreported'] = await decide(other)
  t.match((await server.report(name, other, shortest, token)).json, { context: 'default', state: 'failure' })

  // The newest commit of two, of which only the one before has passed.
  const rules = asAdministrator(server.store).rules
  await rules.set(repository, { refPattern: 'main', required: ['ci/build'], bypass: [] })
  const ask = async (query: string) => (await server.call('GET', `/api/v1/repos/${name}/${query}`)).json
  answers['getLastPassed found'] = await ask('last-passed?branch=main')
  git(repository.path, 'update-ref', 'refs/heads/longer', importCommits(repository.path, 3)[2] ?? '')
  const none = await ask('last-passed?branch=longer&require=lint')
  answers['getLastPassed none'] = { ...none, branch: 'main' }
  git(repository.path, 'update-ref', '-d', 'refs/heads/longer')
  await send({ state: 'failure', context: 'ci/lint' })
  git(repository.path, 'update-ref', 'refs/heads/main', sha)
  const [plain = ''] = importCommits(repository.path, 1)
  git(repository.path, 'update-ref', 'refs/heads/topic', plain)
  answers['listBranches first'] = await ask('branches?limit=1')
  // In the examples there is one commit, whose id is given.
  answers['listBranches last'] = JSON.parse(
    JSON.stringify(await ask('branches?limit=1&after=main')).replace(plain, sha),
  )
  await server.report(name, sha, claim, token)
  answers['listAwaiting first'] = await ask('awaiting?context=ci&limit=1')
  answers['listAwaiting last'] = JSON.parse(
    JSON.stringify(await ask('awaiting?context=ci&limit=1&after=main')).replace(plain, sha),
  )

  const examples = operations.flatMap(({ id, responses }) =>
    Object.entries(exampleValues(responses['200'] ?? responses['201'])).map(([key, value]) => [
      `${id} ${key}`,
      value,
    ]),
  )
  t.strictSame(
    ranked({ sha: exampleSha, ...Object.fromEntries(examples) }),
    ranked({ sha, ...answers }),
    'apart from ids and times, which have the same form and order',
  )

  const linked = operations.flatMap(({ id, responses }) =>
    entries(responses['200']?.links ?? responses['201']?.links).map(([, link]) => ({
      id,
      link: object(link, 'a link'),
    })),
  )
  t.same(
    linked.map(({ id, link }) => `${id} ${link.operationId}`),
    ['reportStatus listStatuses', 'reportStatus getVerdict', 'getVerdict listStatuses'],
  )
  const values: JsonObject = { owner: owner ?? '', repo: repo ?? '', sha }
  for (const { id, link } of linked) {
    const followed = Object.fromEntries(
      entries(link.parameters).map(([key, expression]) => {
        const [, parameter, field] =
          /^\$(?:request\.path\.(\w+)|response\.body#\/(\w+))$/.exec(text(expression, key)) ?? []
        const body: Readonly<Record<string, unknown>> = stored.json
        return [key, String((parameter ? values[parameter] : body[field ?? '']) ?? '')]
      }),
    )
    const path = operations
      .find((operation) => operation.id === link.operationId)
      ?.path.replace(/\{(\w+)\}/g, (_, key) => encodeURIComponent(followed[key] ?? ''))
    const { status, json } = await server.call('GET', path ?? '')
    const direct = link.operationId === 'getVerdict' ? await decide(sha) : (await server.read(name, sha)).json
    t.same([status, json], [200, direct], `${id} leads to ${link.operationId}`)
  }
})

function readOperation({ operationId, parameters, requestBody, responses }: JsonObject) {
  const replies = entries(responses).map(([status, reply]) => [status, object(reply, status)] as const)
  return {
    id: text(operationId, 'operationId'),
    parameters: parameters ?? null,
    requestBody,
    responses: Object.fromEntries(replies),
  }
}

/** Returns the examples of parameters by name. */
function parameterExamples(parameters: Json | undefined): Record<string, Json> {
  const found =
    entries(parameters).length > 0 ? entries(parameters).map(([, each]) => each) : list(parameters)
  return Object.fromEntries(
    found.flatMap((each) => {
      const { name, example } = object(each, 'a parameter')
      return example === undefined ? [] : [[text(name, 'name'), example]]
    }),
  )
}

/** Returns the named examples of a body. */
function exampleValues(holder: JsonObject | undefined): Record<string, Json> {
  const { examples } = object(object(holder?.content, 'content')['application/json'], 'a body')
  return Object.fromEntries(
    entries(examples).map(([name, example]) => [name, object(example, name).value ?? null]),
  )
}

/** Returns the length of each word, and what is between words. */
function shape(text: unknown): string {
  return String(text).replace(/[\w-]+/g, (word) => `${/^\d+$/.test(word) ? 'number' : word.length}`)
}

/**
 * Returns a value in which UUIDv7, commit ids and times are replaced by their place among all of
 * their form.
 */
function ranked(value: unknown): unknown {
  const forms = [
    /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
    /^[\da-f]{40}$/,
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
  ]
  const all = [...JSON.stringify(value).matchAll(/"([^"]*)"/g)].map(([, word = '']) => word)
  const places = forms.map((form) => [...new Set(all.filter((word) => form.test(word)))].sort())
  const json = JSON.stringify(value, (_, word: unknown) => {
    const form = forms.findIndex((each) => typeof word === 'string' && each.test(word))
    return form === -1 ? word : `${['id', 'sha', 'time'][form]} ${places[form]?.indexOf(String(word))}`
  })
  return JSON.parse(json)
}
