import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { basic, createCheckout, git, spawnGit, workFolder } from '../git-http/client.ts'
import { workersIn } from '../git-http/raw.ts'
import { startInstance } from '../helpers/instance.ts'
import { memoryOf } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

/**
 * Pushes, clones and fetches a repository of 21,000 objects and 210 MB through a server of its own
 * process, and shows that the server's memory stays flat; then breaks a push off half-way.
 */
const COMMITS = 7_000
const BLOB = 30_000
/**
 * MiB by which the server's memory may ever exceed what it was before, while some 900 MB pass
 * through: V8 lets 64 MB of buffers gather before it collects them for their own sake.
 */
const ALLOWED_GROWTH = 91

tap.setTimeout(1_800_000)

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

tap.test('a large repository is pushed, cloned and fetched', async (t) => {
  const { options, createRepository, createToken } = await startServer(t)
  const { path } = await createRepository('owner/large', { private: true, commits: 0 })
  const authorization = basic('x', await createToken('owner'))
  const { child, url } = await startInstance(t, options, { LOG_LEVEL: 'warn' })
  const baseline = memoryOf(child.pid)
  /** Samples the server's memory while a git client works. */
  const measure = async (name: string, ...clients: [cwd: string, ...args: string[]][]) => {
    const samples = [memoryOf(child.pid)]
    const timer = setInterval(() => samples.push(memoryOf(child.pid)), 100)
    const begin = performance.now()
    await Promise.all(clients.map(([cwd, ...args]) => git(cwd, [...args, '--quiet'], { authorization })))
    clearInterval(timer)
    const seconds = ((performance.now() - begin) / 1000).toFixed(1)
    const tenths = Array.from({ length: 10 }, (_, i) => samples[Math.floor((i * samples.length) / 10)])
    const growth = Math.max(...samples) - baseline
    t.comment(
      `${name}: ${seconds} s, server memory ${tenths.join(' ')} MiB, at most ${growth} above the start`,
    )
    t.ok(growth < ALLOWED_GROWTH, name)
  }
  const remote = `${url}/owner/large.git`
  const checkout = await createCheckout(t, remote)
  await grow(checkout, COMMITS, 'main')
  t.comment((await git(checkout, ['count-objects', '-vH'])).replaceAll('\n', ', '))
  // So that what the server needs for any request at all is not taken for growth.
  await git(checkout, ['ls-remote', remote], { authorization })

  await breakOff(checkout, path, authorization)
  const folder = workFolder(t)
  const clone = join(folder, 'clone.git')
  await measure('push', [checkout, 'push', 'origin', 'main'])
  await measure('clone', [folder, 'clone', '--bare', remote, 'clone.git'])
  await grow(checkout, COMMITS / 10, 'more')
  await measure('push of more', [checkout, 'push', 'origin', 'more'])
  await measure('fetch', [clone, 'fetch', remote, 'more:more'])
  const clones = ['one', 'two'].map((name): [string, ...string[]] => [
    folder,
    'clone',
    '--bare',
    remote,
    name,
  ])
  await measure('two clones at once', ...clones)
  t.equal(await git(clone, ['rev-parse', 'more']), await git(path, ['rev-parse', 'more']))
  await git(path, ['fsck'])
})
