import { join } from 'node:path'
import { basic, tryGit } from '../../git-http/client.ts'
import { rpcText, workersIn } from '../../git-http/raw.ts'
import { type Ongoing, readSlowly, sendSlowly } from '../../git-http/slow-clients.ts'
import { type Figures, Tally } from '../parts/figures.ts'
import { whileReading } from '../parts/readers.ts'
import type { Fixture } from './fixture.ts'

const TURNS = 40
const CLONES = 30
/** Milliseconds. */
const LIMIT = 5_000
const CROWD_LIMIT = 20_000
const READ_LIMIT = 25
/** How many addresses of each kind of attack there are, and users that push. */
const ATTACKERS = [2, 3, 16]
/** Connections of each kind of attack: more than places. */
const CONNECTIONS = 32

/**
 * Keeps git's requests going in three ways, each from several addresses and just faster than the
 * server demands, while others read, clone and push. At the end many clone at once.
 */
export async function attackGitPlaces(fixture: Fixture): Promise<Figures[]> {
  const { url, folder, tokens, large } = fixture
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
    const [clones, pushes, crowd] = [new Tally(), new Tally(), new Tally()]
    const takeTurns = async (phase: string, isOver: (turn: number) => boolean) => {
      for (let turn = 0; !isOver(turn); turn++) {
        const name = `${phase}-${turn}-of-${count}`
        await run(checkout, ['commit', '--quiet', '--allow-empty', '--message', name])
        const args = ['push', '--quiet', remote, `HEAD:refs/heads/${name}`]
        await pushes.measure(() => run(checkout, args, basic('x', tokens.alice)))
        await clones.measure(() => clone(name))
      }
    }
    const attacks = begin(fixture, count)
    try {
      const hasTaken = (turn: number) => turn > 0 && workersIn(large.path).length === 0
      const early = await whileReading(fixture.read, () => takeTurns('early', hasTaken))
      const reads = await whileReading(fixture.read, () => takeTurns('late', (turn) => turn === TURNS))
      const beside = `beside ${count} addresses`
      rows.push(
        clones.promise(`git places: a clone ${beside}`, 1, LIMIT),
        pushes.promise(`git places: a push ${beside}`, 1, LIMIT),
        { name: `git places: API reads while ${count} take places`, ...early },
        reads.promise(`git places: API reads ${beside}`, 0.99, READ_LIMIT),
      )
      if (count !== ATTACKERS.at(-1)) continue
      const names = Array.from({ length: CLONES }, (_, index) => `crowd-${index}`)
      const crowdReads = await whileReading(fixture.read, async () => {
        await Promise.all(names.map((name) => crowd.measure(() => clone(name))))
      })
      rows.push(crowd.promise(`git places: ${CLONES} clones at once`, 1, CROWD_LIMIT), {
        name: 'git places: API reads beside the clones',
        ...crowdReads,
      })
    } finally {
      for (const attack of attacks) attack.stop()
    }
  }
  return rows
}

function begin({ url, large, tokens }: Fixture, count: number): Ongoing[] {
  const clients = (network: number, bytesPerSecond: number, connections = CONNECTIONS) => ({
    ...{ url, connections, bytesPerSecond },
    addresses: Array.from({ length: count }, (_, index) => `127.0.${network}.${index + 1}`),
  })
  const fetchHead = rpcText('alice/demo', 'git-upload-pack', { length: 100_000 })
  const command = `0070${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main-of-mine\n`
  const pushes = tokens.writers.slice(0, count).map((token) => {
    const authorization = basic('x', token)
    const head = rpcText('mallory/own', 'git-receive-pack', { authorization, length: 100_000_000 })
    return sendSlowly(clients(2, 1_100, Math.ceil(CONNECTIONS / count)), head, command)
  })
  return [
    readSlowly(clients(1, 2_000), large.clone),
    sendSlowly(clients(3, 1_100), fetchHead, '0032want '),
    ...pushes,
  ]
}
