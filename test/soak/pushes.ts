import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import tap from 'tap'
import { basic } from '../git-http/client.ts'
import { EMPTY_PACK, packet } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { listPushes } from '../helpers/events.ts'
import { importCommits } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { createRandom } from '../helpers/random.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Sends 2,000 random pushes by the raw protocol, half of them to a repository with rules, and
 * compares the event of each with the difference of the refs before and after it: `npm run soak --
 * pushes [SEED]`.
 */
const PUSHES = Number(process.env.SOAK_PUSHES ?? 2_000)
const NONE = '0'.repeat(40)
const UNKNOWN = '1'.repeat(40)
const REFS = [
  ...[
    'a',
    'a/b',
    'a/b/c',
    'b',
    'b/c',
    'main',
    '\xc3\xbc',
    '\xfc',
    'ruled-1',
    'ruled-2',
    'x.lock',
    'no..name',
    '',
  ],
].flatMap((name) => [`refs/heads/${name}`, `refs/tags/${name}`])
const OTHER_REFS = [
  'HEAD',
  'refs/notes/n',
  'refs/changes/01/1',
  'refs',
  '',
  'x',
  'refs/heads/*',
  'refs/heads/a b',
]
const CAPABILITIES = [
  ...[
    'report-status',
    'report-status-v2',
    'side-band-64k',
    'side-band-64k=x',
    'atomic',
    'quiet',
    'delete-refs',
  ],
  ...[
    'xreport-status',
    'report-status=1',
    'report-statusx',
    'side-band',
    'agent=a/1',
    '\tside-band-64k',
    'ofs-delta',
  ],
  ...['object-format=sha1', 'push-options', 'session-id=x', 'atomic=no', 'report-status\n'],
]

const seed = Number(process.argv[3] ?? 1)
const random = createRandom(seed)
const { pick } = random
tap.setTimeout(3_600_000)

type Refs = Map<string, string>

function readRefs(path: string): Refs {
  const text = execFileSync('git', ['-C', path, 'for-each-ref', '--format=%(objectname) %(refname)'], {
    encoding: 'latin1',
    maxBuffer: 1e9,
  })
  const lines = text.split('\n').filter(Boolean)
  return new Map(lines.map((line) => [line.slice(41), line.slice(0, 40)]))
}

/** Returns the moves of refs in a form that can be compared. */
function differences(before: Refs, after: Refs): string[] {
  const names = new Set([...before.keys(), ...after.keys()])
  return [...names]
    .map((ref) => ({ ref, old: before.get(ref) ?? NONE, next: after.get(ref) ?? NONE }))
    .filter(({ old, next }) => old !== next)
    .map(({ ref, old, next }) => `${Buffer.from(ref, 'latin1').toString()} ${old} ${next}`)
    .sort()
}

/** Returns the body of a random push, and what it is. */
function createPush(refs: Refs, ids: readonly string[]): Buffer {
  const oldOf = (ref: string) => {
    if (!random.onceIn(6)) return refs.get(ref) ?? NONE
    return pick([NONE, UNKNOWN, ...ids])
  }
  const command = (ref: string) => {
    const next = random.onceIn(4) ? NONE : random.onceIn(20) ? UNKNOWN : pick(ids)
    return `${oldOf(ref)} ${next} ${ref}`
  }
  const existing = [...refs.keys()]
  const anyRef = () =>
    random.onceIn(12)
      ? pick(OTHER_REFS)
      : random.onceIn(2) && existing.length > 0
        ? pick(existing)
        : pick(REFS)
  const commands = Array.from({ length: 1 + random.below(5) }, () => command(anyRef()))
  // git has no update of these to make, so the report is long.
  if (random.onceIn(8))
    commands.unshift(...Array.from({ length: 50 }, (_, index) => `${UNKNOWN} ${ids[0]} refs/heads/n${index}`))
  if (random.onceIn(10))
    commands.push(
      ...Array.from(
        { length: 60 },
        (_, index) => `${NONE} ${ids[0]} refs/many/m${seed}-${random.below(5)}-${index}`,
      ),
    )
  const once = random.onceIn(10)
    ? commands
    : [...new Map(commands.map((line) => [line.slice(82), line])).values()]
  const list = random.onceIn(10) ? [] : Array.from({ length: random.below(5) }, () => pick(CAPABILITIES))
  if (!random.onceIn(8)) list.push('report-status')
  const capabilities = list.length > 0 ? `\0${random.onceIn(2) ? ' ' : ''}${list.join(' ')}` : ''
  const place = random.onceIn(5) ? random.below(once.length) : 0
  const lines = once.map((line, index) => (index === place ? line + capabilities : line))
  if (random.onceIn(15)) lines.splice(random.below(lines.length + 1), 0, `shallow ${pick(ids)}`)
  const isSigned = random.onceIn(12)
  const signed = [
    `push-cert${capabilities}`,
    'certificate version 0.1\npusher a\n\n',
    ...once.map((line) => `${line}\n`),
  ]
  const packets = isSigned ? [...signed, '-----BEGIN PGP SIGNATURE-----\nx\n', 'push-cert-end\n'] : lines
  const options = list.includes('push-options') && !random.onceIn(4) ? `${packet('ci.skip')}0000` : ''
  const pack =
    once.every((line) => line.slice(41, 81) === NONE) && random.onceIn(2) ? Buffer.alloc(0) : EMPTY_PACK
  const end = random.onceIn(40) ? '0001' : random.onceIn(60) ? '' : '0000'
  return Buffer.concat([Buffer.from(`${packets.map(packet).join('')}${end}${options}`, 'latin1'), pack])
}

tap.test(`the events of ${PUSHES} pushes (seed ${seed}) are the differences of the refs`, async (t) => {
  const { store, options, createRepository, createToken } = await startServer(t)
  const server = await startInstance(t, options, { LOG_LEVEL: 'error' })
  const authorization = basic('x', await createToken('owner'))
  const places = []
  for (const name of ['plain', 'ruled']) {
    const repository = await createRepository(`owner/${name}`, { private: true, commits: 0 })
    const { path } = repository
    if (name === 'ruled')
      await asAdministrator(store).rules.set(repository, {
        refPattern: 'ruled-*',
        required: ['never'],
        bypass: [],
      })
    execFileSync('git', ['-C', path, 'config', 'receive.advertisePushOptions', 'true'])
    const url = `${server.url}/owner/${name}.git/git-receive-pack`
    places.push({ path, url, ids: importCommits(path, 6) })
  }
  const counts: Record<string, number> = {}
  for (let index = 0; index < PUSHES; index++) {
    const { path, ids, url } = places[index % 2] ?? assert.fail()
    const before = readRefs(path)
    const body = createPush(before, ids)
    const since = Date.now()
    const answer = await fetch(url, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/x-git-receive-pack-request' },
      body,
    })
    await answer.text()
    const moved = differences(before, readRefs(path))
    const found = (await listPushes(store, { since })).map(({ details }) => details)
    const show = () =>
      `push ${index} of seed ${seed}: ${JSON.stringify(body.toString('latin1'))} ${JSON.stringify(found)}`
    assert(found.length <= 1, show())
    const { updates, unknown = [], more = 0, unreported } = found[0] ?? { updates: [] }
    const recorded = updates.map(({ ref, old, new: next }) => `${ref} ${old} ${next}`)
    assert.equal(recorded.length + more, moved.length, show())
    assert.deepEqual(unknown, [], show())
    if (more === 0) assert.deepEqual(recorded.sort(), moved, show())
    else for (const line of recorded) assert(moved.includes(line), show())
    const kind =
      answer.status !== 200
        ? `refused with ${answer.status}`
        : moved.length === 0
          ? 'without effect'
          : unreported
            ? 'compared'
            : 'reported'
    counts[kind] = (counts[kind] ?? 0) + 1
    counts['moves of refs'] = (counts['moves of refs'] ?? 0) + moved.length
    if (index % 250 === 249) t.comment(`${index + 1} pushes: ${JSON.stringify(counts)}`)
  }
  assert.deepEqual(await store.pushes.listOpen(0), [], 'all pushes are settled')
  server.child.kill('SIGTERM')
  await once(server.child, 'close')
})
