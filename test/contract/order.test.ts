import t from 'tap'
import { parseCidr } from '../../src/http/address.ts'

import { contractFile } from '../helpers/contract.ts'
import { sqlite } from '../helpers/databases.ts'
import { startServer } from '../helpers/server.ts'
import { object, text } from './json.ts'
import { readDocument } from './spec.ts'

/** A report that is accepted unless a rule changes it. */
const GOOD = {
  method: 'POST',
  root: '/api/v1',
  suffix: '',
  address: '',
  user: 'acme',
  expiresAt: Date.now() + 3_600_000,
  scopes: ['repo'],
  contexts: ['lint'],
  repository: 'acme/rocket',
  commit: 'empty',
  length: 40,
  padding: '',
  type: 'application/json',
  body: '{"state": "success", "context": "lint"}',
}
const BLOCKED = '192.0.2.1'
/** Each rule by its step, its words in the prose, and how a report breaks it. */
const RULES: readonly [step: number, says: RegExp, change: Partial<typeof GOOD>][] = [
  [1, /malformed request or URL: `400`/, { suffix: '%zz' }],
  [1, /unknown path: `404`/, { root: '/api/v2' }],
  [1, /wrong method on a known path: `405`/, { method: 'PUT' }],
  [2, /too many failed authentication attempts gets `429`/, { address: BLOCKED }],
  [3, /token that is unknown, malformed, expired or revoked: `401`/, { expiresAt: 1 }],
  [4, /token without the `repo` scope: `403`/, { scopes: [] }],
  [5, /repository that is missing, .*?: `401` without a token, `404` with one/, { repository: 'acme/none' }],
  [6, /report without a token: `401`; with read access only, .*?: `403`/, { user: 'reader' }],
  [7, /more than 16,384 bytes `413`/, { padding: ' '.repeat(16_384) }],
  [7, /not `application\/json` in UTF-8 without a content encoding `415`/, { type: 'text/plain' }],
  [7, /not JSON `400`/, { body: '{' }],
  [8, /invalid field, parameter or commit id: `422`/, { length: 39 }],
  [8, /context that matches no pattern of a token .*?: `403`/, { contexts: ['ci/*'] }],
  [9, /commit that is not in the repository: `404`/, { commit: 'unknown' }],
  [9, /new context on a commit that already has as many contexts .*?: `422`/, { commit: 'full' }],
]

const { description } = object((await readDocument(contractFile)).info, 'info')
const [, section = ''] = /^## Order of checks\n([\s\S]*?)^## /m.exec(text(description, 'description')) ?? []
const steps = section.split(/^(?=\d+\. )/m).slice(1)

t.test('the steps of "Order of checks" are numbered, and each rule is in its step', async (t) => {
  for (const [index, step] of steps.entries()) t.equal(Number.parseInt(step, 10), index + 1)
  for (const [step, says] of RULES) t.match(prose(steps[step - 1] ?? ''), says, `step ${step}`)
})

t.test('of two broken rules, the one that the prose names first decides', async (t) => {
  const server = await startServer(t, {
    database: { ...sqlite, create: async (t) => ({ ...(await sqlite.create(t)), maxContexts: 1 }) },
    budget: { limit: 1, window: 300 },
    trustedProxies: [parseCidr('127.0.0.1')],
  })
  const [empty = '', full = ''] = (await server.createRepository('acme/rocket', { commits: 2 })).commits
  const commits: Record<string, string> = { empty, full, unknown: 'f'.repeat(40) }
  let addresses = 0

  /** Sends a report. Returns its status and what its message says, apart from values. */
  async function judge(...changes: Partial<typeof GOOD>[]): Promise<string> {
    const report = Object.assign({}, GOOD, ...changes)
    const { user, scopes, expiresAt, contexts, repository, method, root, suffix, type, body, padding } =
      report
    const sha = commits[report.commit]?.slice(0, report.length)
    // Every failed authentication spends the budget of its address.
    const address = report.address || `198.51.100.${++addresses}`
    const token = await server.createToken(user, { scopes, expiresAt, limits: { contexts } })
    const answer = await fetch(`${server.url}${root}/repos/${repository}/statuses/${sha}${suffix}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': type, 'x-forwarded-for': address },
      body: body + padding,
    })
    const { error } = object(await answer.json(), 'an answer')
    return `${answer.status} ${String(error).replace(/"[^"]*"|\d+/g, '…')}`
  }

  t.match(await judge(), /^201 /)
  t.match(
    await judge({ commit: 'full', contexts: ['other'], body: '{"state": "success", "context": "other"}' }),
    /^201 /,
  )
  t.match(await judge({ address: BLOCKED, expiresAt: 1 }), /^401 /)
  const whole = prose(section)
  const rules = await Promise.all(
    RULES.map(async ([, says, change]) => ({ change, at: whole.search(says), alone: await judge(change) })),
  )
  for (const { alone, at } of rules) t.ok(whole.slice(at).includes(`\`${alone.slice(0, 3)}\``), alone)
  rules.sort((one, other) => one.at - other.at)
  for (const [index, first] of rules.entries())
    for (const later of rules.slice(index + 1))
      t.equal(await judge(later.change, first.change), first.alone, `before ${later.alone}`)
})

/** Returns prose on one line. */
function prose(text: string): string {
  return text.replace(/\s+/g, ' ')
}
