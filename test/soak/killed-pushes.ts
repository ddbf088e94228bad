import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { basic } from '../git-http/client.ts'
import { packet, pushBody, workersIn } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, type TestDatabase } from '../helpers/databases.ts'
import { listPushes } from '../helpers/events.ts'
import { git, importCommits } from '../helpers/git.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { createRandom } from '../helpers/random.ts'
import { addRepository, addToken } from '../helpers/records.ts'
import { recordEvidence } from './parts/evidence.ts'

/**
 * Kills servers while git works on pushes, with and without git, starts the next one at once, and
 * compares the events of all pushes with what git has written into reflogs: `npm run soak --
 * killed-pushes`.
 */
const PUSHES = Number(process.env.SOAK_PUSHES ?? 200)
const NONE = '0'.repeat(40)
/** Clients of each repository that push to a branch of their own, and to one that they share. */
const [OWN, SHARED] = [3, 2]

tap.setTimeout(3_600_000)
await provideDatabases(tap)
const seed = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000)
const random = createRandom(seed)
/** Pushes on which git worked when their server was killed, and all moves of refs. */
const total = { killed: 0, moves: 0 }

for (const database of databases)
  tap.test(`${database.name}: events of ${PUSHES / 2} pushes of killed servers`, (t) =>
    killServers(t, database),
  )

tap.test('none is missing', async (t) => {
  t.ok(total.killed >= PUSHES)
  if (tap.counts.fail > 0) return
  recordEvidence(
    'killed-pushes',
    'servers were killed while git worked on pushes, with and without git',
    `${total.killed} such pushes: each of ${total.moves} moves of refs is in an event of its own, and none was only unknown`,
  )
})

async function killServers(t: Test, database: TestDatabase): Promise<void> {
  t.comment(`seed ${seed}`)
  const { store, options } = await openTestStore(t, database)
  await asAdministrator(store).users.create('owner')
  const user = (await store.users.find('owner')) ?? assert.fail()
  const authorization = basic('x', (await addToken(store, user.id)).secret)
  const repositories: { name: string; path: string; ids: string[] }[] = []
  for (const name of ['plain', 'ruled']) {
    const repository = await addRepository(store, `owner/${name}`, { commits: 0 })
    if (name === 'ruled')
      await asAdministrator(store).rules.set(repository, { refPattern: 'x', required: ['x'], bypass: [] })
    git(repository.path, 'config', 'core.logAllRefUpdates', 'always')
    repositories.push({ name, path: repository.path, ids: importCommits(repository.path, 50) })
  }
  const start = () => startInstance(t, options, { LOG_LEVEL: 'error' })
  let server: Instance | null = await start()
  let isOver = false
  const counts: Record<string, number> = {}
  const count = (what: string, by = 1) => {
    counts[what] = (counts[what] ?? 0) + by
  }

  /** Pushes until the end. A branch of its own is never refused. */
  async function pushOn({ name, path, ids }: (typeof repositories)[number], branch: string, isOwn: boolean) {
    while (!isOver) {
      if (!server) {
        await setTimeout(10)
        continue
      }
      const current = git(path, 'for-each-ref', '--format=%(objectname)', `refs/heads/${branch}`) || NONE
      const next = random.pick(ids.filter((id) => id !== current))
      const answer = await fetch(`${server.url}/owner/${name}.git/git-receive-pack`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/x-git-receive-pack-request' },
        body: pushBody([`${current} ${next} refs/heads/${branch}`], 'report-status'),
      }).catch(() => null)
      const text = await answer?.text().catch(() => undefined)
      if (text === undefined) count('without an answer')
      else if (answer?.status !== 200) {
        count(`answered ${answer?.status}`)
        await setTimeout(50)
      } else if (text.includes(packet(`ok refs/heads/${branch}\n`))) count('acknowledged')
      else count(isOwn ? `refused: ${text.replace(/^.*?ng refs\/heads\/\S+ |\n.*/gs, '')}` : 'lost a race')
    }
  }

  const clients = repositories.flatMap((repository) => [
    ...Array.from({ length: OWN }, (_, index) => pushOn(repository, `own-${index}`, true)),
    ...Array.from({ length: SHARED }, () => pushOn(repository, 'shared', false)),
  ])
  let killed = 0
  while (killed < PUSHES / 2) {
    await setTimeout(300 + random.below(700))
    const { child } = server
    server = null
    child.kill('SIGKILL')
    await once(child, 'exit')
    if (random.onceIn(2))
      for (const pid of repositories.flatMap(({ path }) => workersIn(path))) endProcess(pid)
    const open = (await store.pushes.listOpen(0)).length
    killed += open
    server = await start()
  }
  await setTimeout(2_000)
  isOver = true
  await Promise.all(clients)
  while ((await store.pushes.listOpen(0)).length > 0) await setTimeout(100)
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')

  const events = await listPushes(store)
  const made = new Map<string, number>()
  for (const { name, path } of repositories)
    for (const move of readMoves(path)) add(made, `owner/${name} ${move}`, 1)
  const moves = [...made.values()].reduce((sum, times) => sum + times, 0)
  let unknown = 0
  for (const { object, details } of events) {
    const listed = (list: readonly { ref: string; old: string; new: string }[] = []) =>
      list.map(({ ref, old, new: next }) => `${object} ${ref} ${old} ${next}`)
    for (const move of listed(details.updates)) add(made, move, -1)
    unknown += listed(details.unknown).filter((move) => (made.get(move) ?? 0) > 0).length
  }
  const wrong = [...made].filter(([, times]) => times !== 0)
  t.comment(
    `${killed} pushes killed, ${moves} moves, ${events.length} events, ${unknown} only unknown; ${JSON.stringify(counts)}`,
  )
  total.killed += killed
  total.moves += moves
  t.same(wrong, [], 'each move is in an event, and no other')
  const refused = Object.keys(counts).filter((what) => what.startsWith('refused'))
  t.same(refused, [], 'no push is refused for what a killed one has left')
}

/** Returns what git has done to the refs of a repository. */
function readMoves(path: string): string[] {
  const folder = join(path, 'logs/refs/heads')
  return readdirSync(folder).flatMap((branch) =>
    readFileSync(join(folder, branch), 'utf8')
      .trim()
      .split('\n')
      .map((line) => `refs/heads/${branch} ${line.slice(0, 81)}`),
  )
}

function add(counts: Map<string, number>, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by)
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself since it was listed.
  }
}
