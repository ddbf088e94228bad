import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../src/store/store.ts'
import { git, spawnGit } from '../git-http/client.ts'
import { workersIn } from '../git-http/raw.ts'
import { until } from '../helpers/until.ts'
import { createOwnedRepository, startServerProcess } from './git-server.ts'

/**
 * Pushes, clones and fetches a repository of 21,000 objects and 210 MB through a server of its own process, and shows
 * that the server's memory stays flat; then breaks a push off half-way.
 */
const COMMITS = 7_000
const BLOB = 30_000
/**
 * Bytes by which the server's memory may ever exceed what it was before, while some 900 MB pass through: V8 lets 64 MB of
 * buffers gather before it collects them for their own sake.
 */
const ALLOWED_GROWTH = 96e6

const folder = mkdtempSync(join(tmpdir(), 'soak-git-'))
const dataDir = join(folder, 'data')
const print = (line: string) => process.stdout.write(`${line}\n`)

/** Adds commits, each with a file that cannot be compressed. */
async function grow(checkout: string, count: number, branch: string): Promise<void> {
  const child = spawnGit(checkout, ['fast-import', '--quiet', '--force'], { input: '' })
  assert(child.stdin)
  for (let index = 0; index < count; index++) {
    const when = `A <a@example.org> ${1_700_000_000 + index} +0000`
    const from = index === 0 && branch !== 'main' ? 'from refs/heads/main\n' : ''
    child.stdin.write(`commit refs/heads/${branch}\ncommitter ${when}\ndata 1\n.\n${from}`)
    child.stdin.write(`M 100644 inline file-${index % 100}\ndata ${BLOB}\n`)
    child.stdin.write(randomBytes(BLOB))
    if (!child.stdin.write('\n')) await once(child.stdin, 'drain')
  }
  child.stdin.end()
  const [code] = await once(child, 'close')
  assert.equal(code, 0)
}

function residentBytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1024
}

let baseline: number | undefined

/** Samples the server's memory while `work` is done. */
async function measure(pid: number, name: string, work: () => Promise<unknown>): Promise<void> {
  const samples = [residentBytes(pid)]
  baseline ??= samples[0]
  const timer = setInterval(() => samples.push(residentBytes(pid)), 100)
  const begin = performance.now()
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  const seconds = (performance.now() - begin) / 1000
  const megabytes = (bytes: number | undefined) => ((bytes ?? 0) / 1e6).toFixed(0)
  const tenths = Array.from({ length: 10 }, (_, i) => samples[Math.floor((i * samples.length) / 10)])
  const growth = Math.max(...samples) - (baseline ?? 0)
  print(
    `${name}: ${seconds.toFixed(1)} s, server memory ${tenths.map(megabytes).join(' ')}; ` +
      `peak ${megabytes(Math.max(...samples))} MB, ${megabytes(growth)} MB above the start`,
  )
  assert(growth < ALLOWED_GROWTH, `${name}: the server's memory grew by ${growth} bytes`)
}

/** Begins a push and kills the client when the server has begun to receive objects. */
async function breakOff(checkout: string, path: string, authorization: string): Promise<void> {
  const client = spawnGit(checkout, ['push', '--quiet', 'origin', 'main:broken-off'], {
    authorization,
    detached: true,
  })
  const objects = () => readdirSync(join(path, 'objects'), { recursive: true, encoding: 'utf8' })
  await until(() => objects().some((name) => /incoming.*tmp_pack/.test(name)))
  assert(client.pid)
  process.kill(-client.pid, 'SIGKILL')
  await until(() => workersIn(path).length === 0)
  assert.deepEqual(
    objects().filter((name) => /incoming|tmp_/.test(name)),
    [],
  )
  assert.equal(await git(path, ['for-each-ref']), '')
  await git(path, ['fsck', '--connectivity-only'])
}

const store = await openStore({ dataDir })
const {
  repository: { path },
  authorization,
} = await createOwnedRepository(store, 'owner', 'large')
await store.close()
const { child, url } = await startServerProcess({ DATA_DIR: dataDir, LOG_LEVEL: 'warn' })
const stopped = once(child, 'exit')
try {
  const pid = child.pid ?? 0
  const remote = `${url}/owner/large.git`
  const checkout = join(folder, 'checkout')
  await git(folder, ['init', '--quiet', '--initial-branch=main', checkout])
  await git(checkout, ['remote', 'add', 'origin', remote])
  await grow(checkout, COMMITS, 'main')
  print((await git(checkout, ['count-objects', '-vH'])).replaceAll('\n', ', '))
  // So that what the server needs for any request at all is not taken for growth.
  await git(checkout, ['ls-remote', remote], { authorization })

  await breakOff(checkout, path, authorization)
  print('broken off: no process and no file of it is left')
  await measure(pid, 'push', () => git(checkout, ['push', '--quiet', 'origin', 'main'], { authorization }))
  await measure(pid, 'clone', () =>
    git(folder, ['clone', '--quiet', '--bare', remote, 'clone.git'], { authorization }),
  )
  await grow(checkout, COMMITS / 10, 'more')
  await measure(pid, 'push of more', () =>
    git(checkout, ['push', '--quiet', 'origin', 'more'], { authorization }),
  )
  await measure(pid, 'fetch', () =>
    git(join(folder, 'clone.git'), ['fetch', '--quiet', remote, 'more:more'], { authorization }),
  )
  await measure(pid, 'two clones at once', () =>
    Promise.all(
      ['one', 'two'].map((name) =>
        git(folder, ['clone', '--quiet', '--bare', remote, name], { authorization }),
      ),
    ),
  )
  assert.equal(
    await git(join(folder, 'clone.git'), ['rev-parse', 'more']),
    await git(path, ['rev-parse', 'more']),
  )
  await git(path, ['fsck'])
  print('the repository is whole')
} finally {
  child.kill('SIGTERM')
  await stopped
  rmSync(folder, { recursive: true, force: true })
}
