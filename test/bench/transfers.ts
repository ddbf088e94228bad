import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { packet } from '../git-http/raw.ts'
import { git } from '../helpers/git.ts'
import { type Compared, compared } from './against.ts'
import { median } from './row.ts'
import type { Side } from './side.ts'

const FILE = 10 * 1024 * 1024
const MAX_PACK = 512 * 1024 * 1024
const CLONED = 30
const PUSHED = 10
const CLONES = 30
/**
 * git neither compresses files nor looks for differences between them, and stores them in a pack
 * that it can send as it is.
 */
const WHOLE_FILES = [
  'core.bigFileThreshold=1m',
  'core.compression=0',
  'pack.compression=0',
  'fastimport.unpackLimit=1',
].flatMap((setting) => ['-c', setting])

/** Milliseconds from the request to the first byte of git's answer, and to its end. */
interface Duration {
  first: number
  total: number
}

/** What the transfers of a side need. */
interface Prepared {
  side: Side
  /** Commit of `large`, with `CLONED` files of 10 MiB that cannot be compressed. */
  large: string
  /** A commit with `PUSHED` such files that the server does not have, and its pack. */
  pushed: { sha: string; pack: Buffer }
}

/**
 * Measures how long fetches and pushes take on two servers, in turn. The client does nothing with
 * what it receives, so that only the servers and their git are compared.
 */
export async function compareTransfers(sides: Side[], rounds: number, only: RegExp): Promise<Compared[]> {
  const chosen = Object.entries(transfers).filter(([name]) => only.test(name))
  const prepared = chosen.length > 0 ? sides.map(prepare) : []
  const rows: Compared[] = []
  for (const [name, transfer] of chosen) {
    const durations = prepared.map((): Duration[] => [])
    for (let round = 0; round < rounds + 1; round++)
      for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
        const side = prepared[index]
        // The first round fills the caches of the file system.
        if (side) durations[index]?.push(await transfer(side, round))
      }
    const rowOf = (suffix: string, part: keyof Duration) => {
      const [here = [], there = []] = durations.map(([, ...measured]) =>
        measured.map((duration) => duration[part]),
      )
      return compared(name + suffix, here, there)
    }
    rows.push(rowOf('', 'total'), rowOf(', first byte', 'first'))
  }
  return rows
}

const transfers: Record<string, (side: Prepared, round: number) => Promise<Duration>> = {
  'clone, 300 MB': ({ side, large }) => fetchAll(side, 'large', large),
  'push, 100 MB': ({ side, pushed: { sha, pack } }, round) => {
    const command = `${'0'.repeat(40)} ${sha} refs/heads/round-${round}\0report-status\n`
    return send(side, 'large', 'git-receive-pack', [Buffer.from(`${packet(command)}0000`), pack])
  },
  [`${CLONES} clones at once`]: async ({ side }) => {
    const [sha = ''] = side.commits
    const clones = await Promise.all(Array.from({ length: CLONES }, () => fetchAll(side, 'public', sha)))
    return {
      first: median(clones.map(({ first }) => first)),
      total: Math.max(...clones.map(({ total }) => total)),
    }
  },
}

function prepare(side: Side): Prepared {
  const large = importFiles(side.createRepository('large'), CLONED)
  const folder = mkdtempSync(join(tmpdir(), 'bench-pushed-'))
  try {
    git(folder, 'init', '--quiet', '--bare')
    const sha = importFiles(folder, PUSHED)
    const pack = spawnSync(
      'git',
      [...WHOLE_FILES, '-C', folder, 'pack-objects', '--stdout', '--all', '--quiet'],
      {
        input: '',
        maxBuffer: MAX_PACK,
      },
    ).stdout
    return { side, large, pushed: { sha, pack } }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Creates the branch `main` with one commit of `files` files. @returns the commit */
function importFiles(path: string, files: number): string {
  const head = 'commit refs/heads/main\ncommitter Test <test@example.org> 1700000000 +0000\ndata 5\nfiles\n'
  const contents = Array.from({ length: files }, (_, index) => [
    Buffer.from(`M 100644 inline file-${index}\ndata ${FILE}\n`),
    randomBytes(FILE),
    Buffer.from('\n'),
  ])
  const { status } = spawnSync('git', [...WHOLE_FILES, '-C', path, 'fast-import', '--quiet'], {
    input: Buffer.concat([Buffer.from(head), ...contents.flat()]),
  })
  if (status !== 0) throw new Error(`git fast-import ended with ${status}`)
  return git(path, 'rev-parse', 'main')
}

function fetchAll(side: Side, repository: string, sha: string): Promise<Duration> {
  const want = packet(`want ${sha} ofs-delta side-band-64k no-progress\n`)
  return send(side, repository, 'git-upload-pack', [Buffer.from(`${want}0000${packet('done\n')}`)])
}

/** Sends a request to one of git's services and reads the answer as fast as it comes. */
async function send(
  { name, server, token }: Side,
  repository: string,
  service: string,
  body: Buffer[],
): Promise<Duration> {
  const start = performance.now()
  const client = request(`${server.url}/alice/${repository}.git/${service}`, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: `Basic ${Buffer.from(`alice:${token}`).toString('base64')}`,
      'content-type': `application/x-${service}-request`,
    },
  })
  client.end(Buffer.concat(body))
  const [response]: [IncomingMessage] = await new Promise((resolve, reject) => {
    client.on('error', reject).on('response', (answer) => resolve([answer]))
  })
  if (response.statusCode !== 200)
    throw new Error(`${name}: ${service}: ${response.statusCode} ${await text(response)}`)
  let first = 0
  response.on('data', () => {
    first ||= performance.now() - start
  })
  await once(response, 'end')
  return { first, total: performance.now() - start }
}
