import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { basic, tryGit } from '../../git-http/client.ts'
import type { Hold } from './attack.ts'
import { during } from './attackers.ts'
import { bytesOf, cloneBytes } from './bytes.ts'
import { type Figures, Tally } from './figures.ts'
import type { Fixture } from './fixture.ts'
import { readUrl, whileReading } from './readers.ts'

const ROUNDS = 2
const CLONES = 30
const PUSHES = 5
/** Milliseconds. */
const PUSH_LIMIT = 5_000
const CLONE_LIMIT = 60_000

/** Takes git's slots in three ways, each from an address of its own, while others clone and push. */
export async function attackGitSlots(fixture: Fixture): Promise<Figures[]> {
  const { url, folder, large, tokens } = fixture
  const common = { kind: 'hold', url, seconds: 150 } as const
  const type = (service: string) => ({ 'content-type': `application/x-${service}-request` })
  const push = { ...type('git-receive-pack'), authorization: basic('x', tokens.mallory) }
  const attacks: Hold[] = [
    {
      ...common,
      addresses: ['127.0.0.2'],
      connections: 32,
      reads: true,
      bytes: bytesOf('POST', '/alice/demo.git/git-upload-pack', type('git-upload-pack'), '', 100),
    },
    {
      ...common,
      addresses: ['127.0.0.3'],
      connections: 16,
      reads: false,
      bytes: cloneBytes('alice/large', large.head),
    },
    {
      ...common,
      addresses: ['127.0.0.4'],
      connections: 32,
      reads: true,
      bytes: bytesOf('POST', '/mallory/own.git/git-receive-pack', push, '00', 1_000_000),
    },
  ]
  const [clones, pushes] = [new Tally(), new Tally()]
  const remote = `${url}/alice/demo.git`
  const run = async (cwd: string, args: string[], authorization?: string) => {
    const { code, stderr } = await tryGit(cwd, args, { ...(authorization && { authorization }) })
    return code === 0 ? null : stderr.trim()
  }
  const cloneAll = async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const names = Array.from({ length: CLONES }, (_, index) => `clone-${round}-${index}`)
      await Promise.all(
        names.map((name) => clones.measure(() => run(folder, ['clone', '--quiet', '--bare', remote, name]))),
      )
    }
  }
  const pushAll = async () => {
    const checkout = join(folder, 'alice-demo')
    for (let index = 0; index < PUSHES; index++) {
      await run(checkout, ['commit', '--quiet', '--allow-empty', '--message', `Change ${index}`])
      const args = ['push', '--quiet', remote, `HEAD:refs/heads/push-${index}`]
      await pushes.measure(() => run(checkout, args, basic('x', tokens.alice)))
      await setTimeout(500)
    }
  }
  const reads = await during(attacks, () =>
    whileReading(readUrl(fixture), async () => {
      // Until the attack has taken what it can.
      await setTimeout(3_000)
      await Promise.all([cloneAll(), pushAll()])
    }),
  )
  return [
    clones.promise(`git slots: ${CLONES} clones at once`, 1, CLONE_LIMIT),
    pushes.promise('git slots: pushes', 1, PUSH_LIMIT),
    { name: 'git slots: API reads', ...reads },
  ]
}
