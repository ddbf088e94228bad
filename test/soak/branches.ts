import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { compareMoves } from '../branches/moved-branches.ts'
import { compareHistories } from '../branches/random-histories.ts'
import { basic } from '../git-http/client.ts'
import { EMPTY_PACK, packet } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, type TestDatabase } from '../helpers/databases.ts'
import { gitWith, importCommits } from '../helpers/git.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { createRandom } from '../helpers/random.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'

/**
 * Compares what the API says about branches with the gate in random histories, and walks through the
 * pages of branches beside pushes that create, move and delete them: `npm run soak -- branches [PART]`,
 * where PART is `histories` or `walks`.
 */
const HISTORIES = 1_000
const PUSHES = 1_000
/** Branches that stay, half of which are moved; and names of those that come and go. */
const STAYING = 120
const PASSING = 120
const NONE = '0'.repeat(40)

const [, , , part] = process.argv
tap.setTimeout(7_200_000)
await provideDatabases(tap)

/** Pushes and walks until all is pushed. Returns the number of walks. */
async function walkBesidePushes(t: Test, database: TestDatabase): Promise<number> {
  const random = createRandom(1)
  const server = await startServer(t, { database })
  const repository = await server.createRepository('owner/rocket')
  const { id: repositoryId, path } = repository
  const { store } = server
  const ids = importCommits(path, 20)
  await asAdministrator(store).rules.set(repository, { refPattern: '*0', required: ['ci'], bypass: [] })
  await Promise.all(ids.slice(10).map((sha) => addReport({ store, repositoryId, sha }, 'ci')))

  const nameOf = (index: number) => `b${String(index).padStart(4, '0')}`
  const all = Array.from({ length: STAYING + PASSING }, (_, index) => nameOf(index))
  const staying = all.filter((_, index) => index % 2 === 0)
  const moving = staying.filter((_, index) => index % 2 === 0)
  const passing = all.filter((_, index) => index % 2 === 1)
  const tips = new Map(staying.map((name) => [name, random.pick(ids)]))
  const commands = [...tips].map(([name, id]) => `create refs/heads/${name} ${id}\n`)
  gitWith(path, commands.join(''), 'update-ref', '--stdin')
  gitWith(path, '', 'pack-refs', '--all')
  // It is a branch too, which comes after these.
  const [main = ''] = repository.commits

  const authorization = basic('x', await server.createToken('owner'))
  let isPushing = true
  const push = async () => {
    const updates = new Map<string, string | undefined>()
    for (const name of [random.pick(passing), random.pick(passing), random.pick(passing)])
      updates.set(name, tips.has(name) ? undefined : random.pick(ids))
    updates.set(random.pick(moving), random.pick(ids))
    const lines = [...updates].flatMap(([name, id]) =>
      tips.get(name) === id ? [] : [`${tips.get(name) ?? NONE} ${id ?? NONE} refs/heads/${name}`],
    )
    // All are refused where one is on a branch with a rule that its commit does not meet.
    const packets = lines.map((line, index) => packet(index === 0 ? `${line}\0report-status` : line))
    const answer = await fetch(`${server.url}/owner/rocket.git/git-receive-pack`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/x-git-receive-pack-request' },
      body: Buffer.concat([Buffer.from(`${packets.join('')}0000`), EMPTY_PACK]),
    })
    const report = await answer.text()
    assert.equal(answer.status, 200, report)
    for (const [name, id] of updates) {
      if (!report.includes(`ok refs/heads/${name}\n`)) continue
      if (id === undefined) tips.delete(name)
      else tips.set(name, id)
    }
  }
  const pushAll = async () => {
    for (let index = 0; index < PUSHES; index++) await push()
    isPushing = false
  }

  const walk = async () => {
    const limit = 1 + random.below(30)
    const verdict = random.onceIn(3) ? '&verdict=success' : ''
    const seen: { name: string; sha: string }[] = []
    let after = ''
    do {
      const { status, json } = await server.call(
        'GET',
        `/api/v1/repos/owner/rocket/branches?limit=${limit}${after}${verdict}`,
      )
      assert.equal(status, 200, JSON.stringify(json))
      seen.push(...(json.branches ?? []))
      after = typeof json.next === 'string' ? `&after=${json.next}` : ''
    } while (after !== '')
    const names = seen.map(({ name }) => name)
    assert.deepEqual(names, [...new Set(names)].sort(), 'in order, each once')
    return { seen, isFiltered: verdict !== '' }
  }
  let walks = 0
  const walkAll = async () => {
    while (isPushing) {
      const { seen, isFiltered } = await walk()
      const names = new Set(seen.map(({ name }) => name))
      if (!isFiltered) for (const name of staying) assert(names.has(name), `${name} is missing`)
      for (const { name, sha } of seen)
        if (!moving.includes(name) && staying.includes(name)) assert.equal(sha, tips.get(name), name)
      walks++
      await setTimeout(1)
    }
  }
  await Promise.all([pushAll(), walkAll(), walkAll()])

  for (;;) {
    const { seen, isFiltered } = await walk()
    if (isFiltered) continue
    const expected = [...tips, ['main', main] as const].sort(([a], [b]) => (a < b ? -1 : 1))
    assert.deepEqual(
      seen.map(({ name, sha }) => [name, sha]),
      expected,
    )
    return walks
  }
}

if (part !== 'walks')
  tap.test('histories', async (t) => {
    for (const database of databases) {
      await t.test(database.name, (t) => compareHistories(t, database, HISTORIES))
      await t.test(`${database.name}, moved`, (t) => compareMoves(t, database, HISTORIES))
      t.comment(`${database.name} is done`)
    }
    if (t.counts.fail > 0) return
    recordEvidence(
      'branches',
      'the last commit that passed was compared with the gate and with each verdict, in random histories with merges, and with what a branch was really at',
      `${HISTORIES} histories on SQLite and ${HISTORIES} on PostgreSQL: all agree`,
    )
  })
if (part !== 'histories')
  tap.test('walks', async (t) => {
    const walks: number[] = []
    for (const database of databases)
      await t.test(database.name, async (t) => {
        walks.push(await walkBesidePushes(t, database))
        t.pass(`${walks.at(-1)} walks`)
      })
    if (t.counts.fail > 0) return
    recordEvidence(
      'branches',
      'clients walked through the pages of branches, beside pushes that created, moved and deleted them',
      `${walks.join(' and ')} walks beside ${PUSHES} pushes each, on SQLite and PostgreSQL: every branch that stayed was seen exactly once`,
    )
  })
