import { rename } from 'node:fs/promises'
import t from 'tap'
import { contractFile } from '../helpers/contract.ts'
import { startServer } from '../helpers/server.ts'
import { entries, object, text } from './json.ts'
import { readContract } from './spec.ts'

const { document } = await readContract(contractFile)

/** Returns the texts of all examples of errors by name. */
function exampleTexts(): Record<string, string> {
  const { responses } = object(document.components, 'components')
  const examples = entries(responses).flatMap(([name, response]) => {
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
  const [sha = ''] = (await server.createRepository('acme/rocket')).commits
  const away = await server.createRepository('acme/away')
  const token = await server.createToken('acme')
  const stranger = await server.createToken('stranger')
  const scopeless = await server.createToken('acme', { scopes: [] })
  const elsewhere = await server.createToken('acme', { limits: { repositories: [0] } })
  const ci = await server.createToken('acme', { limits: { contexts: ['ci/*', 'build'] } })
  const [good, unknown] = [{ state: 'success' }, 'f'.repeat(40)]
  const headers = { 'content-type': 'text/plain' }
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
    noRepository: server.report('acme/missing', sha, good, token),
    noCommit: server.report('acme/rocket', unknown, good, token),
    tooLarge: server.call('POST', report, { token, body: ' '.repeat(16_385) }),
    wrongType: server.call('POST', report, { token, headers, body: '{}' }),
    tooLong: server.report('acme/rocket', sha, { ...good, context: 'x'.repeat(261) }, token),
    abbreviated: server.read('acme/rocket', '2c26b46'),
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
})
