import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { basic, tryGit } from '../../git-http/client.ts'
import { type Ongoing, readSlowly, sendSlowly } from '../../git-http/slow-clients.ts'
import { bytesOf, cloneBytes } from './bytes.ts'
import { type Figures, Tally } from './figures.ts'
import type { Fixture } from './fixture.ts'
import { readUrl, whileReading } from './readers.ts'

const TURNS = 5
const CLONES = 30
/** Milliseconds. */
const LIMIT = 5_000
const CROWD_LIMIT = 20_000
const READERS = 16
const SENDERS = 32

/**
 * Keeps git's requests going in three ways, each from two addresses and faster than the server demands, while others clone and
 * push.
 */
export async function attackGitPlaces(fixture: Fixture): Promise<Figures[]> {
  const { url, folder, tokens } = fixture
  const [clones, pushes, crowd] = [new Tally(), new Tally(), new Tally()]
  const remote = `${url}/alice/demo.git`
  const run = async (cwd: string, args: string[], authorization?: string) => {
    const { code, stderr } = await tryGit(cwd, args, { ...(authorization && { authorization }) })
    return code === 0 ? null : stderr.trim()
  }
  const clone = (name: string) => run(folder, ['clone', '--quiet', '--bare', remote, name])
  const takeTurns = async () => {
    const checkout = join(folder, 'alice-demo')
    for (let turn = 0; turn < TURNS; turn++) {
      await run(checkout, ['commit', '--quiet', '--allow-empty', '--message', `Change ${turn}`])
      const args = ['push', '--quiet', remote, `HEAD:refs/heads/push-${turn}`]
      await pushes.measure(() => run(checkout, args, basic('x', tokens.alice)))
      await clones.measure(() => clone(`clone-${turn}`))
    }
  }
  const cloneAll = async () => {
    const names = Array.from({ length: CLONES }, (_, index) => `crowd-${index}`)
    await Promise.all(names.map((name) => crowd.measure(() => clone(name))))
  }
  const attacks = begin(fixture)
  try {
    const reads = await whileReading(readUrl(fixture), async () => {
      // Until the attack has taken what it can.
      await setTimeout(3_000)
      await takeTurns()
      await cloneAll()
    })
    return [
      clones.promise('git places: a clone', 1, LIMIT),
      pushes.promise('git places: a push', 1, LIMIT),
      crowd.promise(`git places: ${CLONES} clones at once`, 1, CROWD_LIMIT),
      { name: 'git places: API reads', ...reads },
    ]
  } finally {
    for (const attack of attacks) attack.stop()
  }
}

function begin({ url, large, tokens }: Fixture): Ongoing[] {
  const type = (service: string) => ({ 'content-type': `application/x-${service}-request` })
  const push = { ...type('git-receive-pack'), authorization: basic('x', tokens.mallory) }
  const fetchHead = bytesOf('POST', '/alice/demo.git/git-upload-pack', type('git-upload-pack'), '', 100_000)
  const pushHead = bytesOf('POST', '/mallory/own.git/git-receive-pack', push, '', 100_000_000)
  const command = `0070${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main-of-mine\n`
  const clients = (first: number, connections: number, bytesPerSecond: number) => ({
    ...{ url, connections, bytesPerSecond },
    addresses: [`127.0.0.${first}`, `127.0.0.${first + 1}`],
  })
  return [
    readSlowly(clients(2, READERS, 2_000), cloneBytes('alice/large', large.head)),
    sendSlowly(clients(4, SENDERS, 1_500), pushHead, command),
    sendSlowly(clients(6, SENDERS, 1_500), fetchHead, '0032want '),
  ]
}
