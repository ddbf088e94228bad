import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { constants, deflateRawSync, gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { basic, tryGit } from '../../git-http/client.ts'
import { packOfDeltas } from '../../git-http/delta-pack.ts'
import { beginRpc, EMPTY_PACK, packet, pushBody, rpcText, workersIn } from '../../git-http/raw.ts'
import { holdRequests, type Ongoing, readSlowly, sendSlowly } from '../../git-http/slow-clients.ts'
import { freePort } from '../../helpers/free-port.ts'
import { memoryOf } from '../../helpers/process.ts'
import { startCaddy } from '../parts/caddy.ts'
import { type Figures, Tally } from '../parts/figures.ts'
import { startNginx } from '../parts/nginx.ts'
import { whileReading } from '../parts/readers.ts'
import { type Fixture, statusesOf } from './fixture.ts'

const TURNS = 40
const CLONES = 30
/** Clones beside pushes that keep git busy. */
const LATE_CLONES = 15
/**
 * How many times its limits a machine is allowed that has more to do than it has processors when the
 * soak begins. So a table that promises 15000 ms says of itself that its machine was not quiet.
 */
const ALLOWED = (loadavg()[0] ?? 0) > availableParallelism() ? 3 : 1
/** Milliseconds, on two processors which the attackers, and a proxy, use too. */
const LIMIT = 5_000 * ALLOWED
const CROWD_LIMIT = 20_000 * ALLOWED
/** Of a push that waits for its turn beside those that keep git busy: it is not lost. */
const WAIT_LIMIT = 600_000
const READ_LIMIT = 100 * ALLOWED
/** MiB of the server. */
const MEMORY = 500
/** How many addresses of each kind of attack there are, and users that push. */
const ATTACKERS = (process.env.SOAK_ADDRESSES ?? '2,3,6,16').split(',').map(Number)
/** Connections that read, and of each address that fetches: more than places. */
const CONNECTIONS = 32
/** Connections of each user. */
const PUSHES = 2
/** Of each user, pushes that are silent before their pack, and that wait for their turn. */
const IDLE_PUSHES = 64
/** Packets of 60 KB with options of a push. */
const OPTIONS = 16
const SPOOL = 512 * 1024 ** 2
/** Bytes of the body of a fetch: nearly the most. */
const FETCH = 9_900_000
const NOTHING = Buffer.alloc(0)

/**
 * Keeps git's requests going from several addresses and users, each just below the server's limits:
 * bodies of fetches that fill what they may take, clones that are read slowly, pushes that fill the
 * spool and go on slowly, that are silent before their pack, or that wait with many options and
 * hardly read, and deltas of a large file. Others read, clone and push beside them. At the end many
 * clone at once. `SOAK_ADDRESSES` names how many attack.
 */
export async function attackGitPlaces(fixture: Fixture): Promise<Figures[]> {
  const { url, child } = await fixture.start({ SPOOL_MAX_BYTES: `${SPOOL}` })
  return await attack({ ...fixture, url, pid: child.pid ?? 0 })
}

/** The same behind nginx with the guide's configuration, which the attackers do not get around. */
export function attackThroughNginx(fixture: Fixture, t: Test): Promise<Figures[]> {
  return attackThrough(fixture, async (port, instance) =>
    startNginx(t, port, await freePort(), [Number(new URL(instance).port)]),
  )
}

/** The same behind Caddy with the guide's configuration. */
export function attackThroughCaddy(fixture: Fixture, t: Test): Promise<Figures[]> {
  return attackThrough(fixture, (port, instance) => startCaddy(t, port, instance))
}

/** The same behind a proxy that buffers nothing, neither requests nor answers. */
export function attackThroughProxy(fixture: Fixture, t: Test): Promise<Figures[]> {
  return attackThrough(fixture, async (port, instance) =>
    startNginx(t, port, await freePort(), [Number(new URL(instance).port)], false),
  )
}

async function attackThrough(
  fixture: Fixture,
  startProxy: (port: number, instance: string) => Promise<void>,
): Promise<Figures[]> {
  const environment = { SPOOL_MAX_BYTES: `${SPOOL}`, TRUSTED_PROXIES: '127.0.0.1' }
  const { url, child } = await fixture.start(environment)
  const port = await freePort()
  await startProxy(port, url)
  return await attack({ ...fixture, url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0 })
}

async function attack(fixture: Fixture): Promise<Figures[]> {
  const { url, pid, folder, tokens, large } = fixture
  const readUrl = url + statusesOf(new URL(fixture.read).pathname.split('/').at(-2) ?? '')
  const checkout = join(folder, 'alice-demo')
  const remote = `${url}/alice/demo.git`
  const run = async (cwd: string, args: string[], authorization?: string) => {
    const { code, stderr } = await tryGit(cwd, args, {
      isRemote: true,
      ...(authorization && { authorization }),
    })
    return code === 0 ? null : stderr.trim()
  }
  const clone = (name: string) => run(folder, ['clone', '--quiet', '--bare', remote, name])
  const rows: Figures[] = []
  for (const count of ATTACKERS) {
    const [clones, pushes, late] = [new Tally(), new Tally(), new Tally()]
    const [waiting, crowd] = [new Tally(), new Tally()]
    const series = `${Date.now()}-${count}`
    const takeTurns = async (phase: string, isOver: (turn: number) => boolean) => {
      for (let turn = 0; !isOver(turn); turn++) {
        const name = `${phase}-${turn}-of-${series}`
        await run(checkout, ['commit', '--quiet', '--allow-empty', '--message', name])
        const args = ['push', '--quiet', remote, `HEAD:refs/heads/${name}`]
        await pushes.measure(() => run(checkout, args, basic('x', tokens.alice)))
        await clones.measure(() => clone(name))
      }
    }
    const attacks = begin(fixture, count)
    try {
      const hasTaken = (turn: number) => turn > 0 && workersIn(large.path).length === 0
      const early = await whileReading(readUrl, () => takeTurns('early', hasTaken))
      const reads = await whileReading(readUrl, () => takeTurns('late', (turn) => turn === TURNS))
      const beside = `beside ${count} addresses`
      const deltas = pushDeltas(fixture, count)
      attacks.push(deltas, waitIdly(fixture, count))
      const push = waiting.measure(() =>
        run(
          checkout,
          ['push', '--quiet', remote, `HEAD:refs/heads/deltas-of-${series}`],
          basic('x', tokens.alice),
        ),
      )
      for (let turn = 0; turn < LATE_CLONES; turn++)
        await late.measure(() => clone(`deltas-${turn}-of-${series}`))
      await push
      const memory = memoryOf(pid, 'VmHWM')
      rows.push(
        clones.promise(`git places: a clone ${beside}`, 1, LIMIT),
        pushes.promise(`git places: a push ${beside}`, 1, LIMIT),
        { name: `git places: API reads while ${count} take places`, ...early },
        reads.promise(`git places: API reads ${beside}`, 0.99, READ_LIMIT),
        late.promise(`git places: a clone ${beside} and deltas`, 1, LIMIT),
        waiting.promise(`git places: a push ${beside} and deltas`, 1, WAIT_LIMIT),
        {
          ...{ name: `git places: memory ${beside}: ${memory} MiB`, latencies: [], failures: [] },
          promise: { text: `< ${MEMORY} MiB`, kept: memory < MEMORY },
        },
      )
      if (count !== ATTACKERS.at(-1)) continue
      deltas.stop()
      const names = Array.from({ length: CLONES }, (_, index) => `crowd-${series}-${index}`)
      const crowdReads = await whileReading(readUrl, async () => {
        await Promise.all(names.map((name) => crowd.measure(() => clone(name))))
      })
      rows.push(crowd.promise(`git places: ${CLONES} clones at once`, 1, CROWD_LIMIT), {
        name: 'git places: API reads beside the clones',
        ...crowdReads,
      })
    } finally {
      for (const { stop } of attacks) stop()
    }
  }
  return rows
}

function begin({ url, large, tokens }: Fixture, count: number): Pick<Ongoing, 'stop'>[] {
  const clients = (network: number, connections = CONNECTIONS * count) => ({
    ...{ url, connections },
    addresses: Array.from({ length: count }, (_, index) => `127.0.${network}.${index + 1}`),
  })
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main-of-mine`
  const users = tokens.writers.slice(0, count).map((token) => basic('x', token))
  const spool = users.flatMap((authorization) => {
    const head = rpcText('mallory/own', 'git-receive-pack', { authorization, length: 100_000_000 })
    const size = Math.floor(SPOOL / (count + 1) / PUSHES)
    const silent = Buffer.concat([Buffer.from(head, 'latin1'), pushBody([command], 'report-status', NOTHING)])
    return [
      holdRequests(clients(5, IDLE_PUSHES), [silent, NOTHING], 290),
      sendSlowly({ ...clients(2, PUSHES), bytesPerSecond: 1_100 }, head, packet(`${command}\n`)),
      holdRequests(clients(4, PUSHES), zipped('mallory/own', 'git-receive-pack', size, authorization), 600),
    ]
  })
  const fetches = zipped('alice/demo', 'git-upload-pack', FETCH)
  return [
    readSlowly({ ...clients(1, CONNECTIONS), bytesPerSecond: 2_000 }, large.clone),
    holdRequests(clients(3), fetches, 19),
    ...spool,
  ]
}

/** Returns a request whose gzip body has this size and does not end, and more of it. */
function zipped(
  repository: string,
  service: string,
  size: number,
  authorization?: string,
): readonly [head: Buffer, part: Buffer] {
  const options = { finishFlush: constants.Z_SYNC_FLUSH, level: 9 }
  const head = rpcText(repository, service, { length: 10_000_000, ...(authorization && { authorization }) })
  const withEncoding = head.replace('\r\n\r\n', '\r\ncontent-encoding: gzip\r\n\r\n')
  return [
    Buffer.concat([Buffer.from(withEncoding, 'latin1'), gzipSync(Buffer.alloc(size, '0'), options)]),
    deflateRawSync(Buffer.alloc(64 * 1024, '0'), options),
  ]
}

/** Each user has pushes wait, whose answers are read a few bytes at a time. */
function waitIdly({ url, tokens }: Fixture, count: number): Pick<Ongoing, 'stop'> {
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/idle`
  const options = packet('x'.repeat(60_000)).repeat(OPTIONS)
  const rest = Buffer.concat([Buffer.from(`${options}0000`), EMPTY_PACK])
  const body = pushBody([command], 'report-status side-band-64k push-options', rest).toString('latin1')
  const idle = tokens.writers.slice(0, count).map((token, index) => {
    const request = rpcText('mallory/own', 'git-receive-pack', { authorization: basic('x', token), body })
    const addresses = [`127.0.6.${index + 1}`]
    return readSlowly({ url, addresses, connections: IDLE_PUSHES, bytesPerSecond: 4 }, request)
  })
  return {
    stop: () => {
      for (const { stop } of idle) stop()
    },
  }
}

/** Each user pushes deltas on a blob of 120 MB, again and again. */
function pushDeltas({ url, tokens }: Fixture, count: number): Pick<Ongoing, 'stop'> {
  const stop = new AbortController()
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/deltas`
  const body = pushBody([command], ' report-status', packOfDeltas(120_000_000, 3_000))
  const push = async (token: string) => {
    while (!stop.signal.aborted) {
      const { request, answer } = beginRpc(`${url}/mallory/own.git`, 'git-receive-pack', basic('x', token))
      stop.signal.addEventListener('abort', () => request.destroy(), { once: true })
      request.end(body)
      await answer.catch(() => {})
    }
  }
  for (const token of tokens.writers.slice(0, count).flatMap((token) => [token, token])) void push(token)
  return { stop: () => stop.abort() }
}
