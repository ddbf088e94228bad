import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { CommitLookup, type CommitLookupOptions } from '../../../src/git/objects/commit-lookup.ts'
import type { LookupRepository } from '../../../src/git/objects/lookup-queue.ts'
import { replaceGit } from '../../helpers/git.ts'
import { until } from '../../helpers/until.ts'
import { createSample, isRunning, readersOf, temporaryFolder } from '../sample-repository.ts'

function open(t: Test, options?: CommitLookupOptions) {
  const lookup = new CommitLookup(options)
  t.teardown(() => lookup.close())
  return lookup
}

/** Stops this process for some milliseconds. */
const pause = (milliseconds: number) =>
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)

/** Waits until a lookup finds a commit, for which git may need longer than it has on a busy machine. */
function untilFound(lookup: CommitLookup, repository: LookupRepository, commit: string) {
  return until(() =>
    lookup.has(repository, commit).catch((error: Error) => {
      if (/in time/.test(error.message)) return false
      throw error
    }),
  )
}

/**
 * A program that answers every question with "commit" and records the number of questions in each
 * read.
 */
function noteReads(notes: string): string {
  const program = `
    process.stdin.on('data', (chunk) => {
      const ids = chunk.toString().trim().split('\\n')
      require('node:fs').appendFileSync(process.argv[1], ids.length + '\\n')
      process.stdout.write(ids.map((id) => id + ' commit\\n').join(''))
    })`
  return `exec '${process.execPath}' -e '${program.replaceAll("'", `'\\''`)}' '${notes}'`
}

t.test('all lookups of one turn are sent in one write', async (t) => {
  const sample = await createSample(t)
  const notes = join(temporaryFolder(t), 'notes')
  const ids = Array.from({ length: 100 }, (_, i) => i.toString(16).padStart(40, '0'))
  replaceGit(t, noteReads(notes))
  const lookup = open(t)
  t.ok((await Promise.all(ids.map((id) => lookup.has(sample, id)))).every((found) => found))
  t.equal(readFileSync(notes, 'utf8'), '100\n')
})

t.test('no answer is lost when the process is killed', async (t) => {
  const sample = await createSample(t)
  const commits = sample.commits(20)
  const lookup = open(t)
  for (let round = 0; round < 10; round += 1) {
    await lookup.has(sample, commits[0] ?? '')
    const asked = commits.map((commit) => lookup.has(sample, commit))
    if (round % 2 === 0) await setImmediate()
    for (const pid of readersOf(sample.path)) process.kill(pid, 'SIGKILL')
    t.ok((await Promise.all(asked)).every((found) => found))
  }
})

t.test('no answer is lost when the process is killed while its pipe is full', async (t) => {
  const sample = await createSample(t)
  const commits = sample.commits(10)
  const lookup = open(t)
  await lookup.has(sample, commits[0] ?? '')
  const [pid = 0] = readersOf(sample.path)
  process.kill(pid, 'SIGSTOP')
  const asked = Array.from({ length: 20_000 }, (_, i) => lookup.has(sample, commits[i % 10] ?? ''))
  await setTimeout(50)
  process.kill(pid, 'SIGKILL')
  t.ok((await Promise.all(asked)).every((found) => found))
})

t.test(
  'a git that ends without an answer is started once more; then the repository is unavailable',
  async (t) => {
    const sample = await createSample(t)
    const commit = sample.commit()
    const notes = join(temporaryFolder(t), 'notes')
    writeFileSync(notes, '')
    replaceGit(t, `echo start >> '${notes}'\necho 'fatal: no luck today' >&2\nexit 128`)
    const lookup = open(t)
    const outcomes = await Promise.allSettled([lookup.has(sample, commit), lookup.has(sample, commit)])
    for (const outcome of outcomes) {
      t.match(outcome, {
        status: 'rejected',
        reason: { name: 'RepositoryUnavailable', message: /128: fatal: no luck today/ },
      })
    }
    t.equal(readFileSync(notes, 'utf8'), 'start\nstart\n')
    t.equal(lookup.size, 0)
  },
)

t.test('answers that were written before the process ended are used', async (t) => {
  const sample = await createSample(t)
  const [first, second] = ['1'.repeat(40), '2'.repeat(40)]
  replaceGit(t, 'read id\necho "$id commit"\nexit 1')
  const lookup = open(t)
  t.same(await Promise.all([lookup.has(sample, first), lookup.has(sample, second)]), [true, true])
})

t.test('an answer in several chunks and an answer for another id are handled', async (t) => {
  const sample = await createSample(t)
  replaceGit(t, 'read id\nread other\nprintf "$id com"\nsleep 0.05\nprintf "mit\\n$id commit\\n"\nread end')
  const lookup = open(t)
  const asked = ['1'.repeat(40), '2'.repeat(40)].map((id) => lookup.has(sample, id))
  t.same(await Promise.all(asked), [true, false])
})

t.test('a process that sends too many answers is killed', async (t) => {
  const sample = await createSample(t)
  replaceGit(t, 'read id\necho "$id commit"\necho more\nexec sleep 30')
  const lookup = open(t)
  t.equal(await lookup.has(sample, '1'.repeat(40)), true)
  await until(() => lookup.size === 0)
})

t.test('without git the repository is unavailable', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  const before = process.env.PATH
  process.env.PATH = '/nowhere'
  t.teardown(() => {
    process.env.PATH = before
  })
  const lookup = open(t, { maxProcesses: 1 })
  await t.rejects(lookup.has(sample, commit), { name: 'RepositoryUnavailable', message: /ENOENT/ })
  t.equal(lookup.size, 0)
  process.env.PATH = before
  t.equal(
    await lookup.has(sample, commit),
    true,
    'available again when git can be run: the failed start took no slot',
  )
})

t.test('a hanging git is killed, and the repository is unavailable until git answers again', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  const lookup = open(t, { timeout: 1_500 })
  await untilFound(lookup, sample, commit)
  await until(() => readersOf(sample.path).length === 1)
  const [pid = 0] = readersOf(sample.path)
  process.kill(pid, 'SIGSTOP')
  await t.rejects(lookup.has(sample, commit), { name: 'RepositoryUnavailable', message: /in time/ })
  await until(() => !isRunning(pid))
  await untilFound(lookup, sample, commit)
})

t.test('answers that have come while the server was busy are read, however late', async (t) => {
  const sample = await createSample(t)
  const folder = temporaryFolder(t)
  const asked = join(folder, 'asked')
  const goOn = join(folder, 'go-on')
  const answered = join(folder, 'answered')
  replaceGit(
    t,
    `read -r id; echo "$id commit"; read -r id; touch ${asked}
    until [ -e ${goOn} ]; do sleep 0.05; done; echo "$id commit"; touch ${answered}; exec sleep 60`,
  )
  const timeout = 3_000
  const lookup = open(t, { timeout })
  await untilFound(lookup, sample, '1'.repeat(40))
  const since = performance.now()
  const found = lookup.has(sample, '2'.repeat(40))
  await until(() => existsSync(asked))
  // Timers follow, before anything is read.
  await setImmediate()
  writeFileSync(goOn, '')
  while (!existsSync(answered) || performance.now() - since < timeout + 100) pause(50)
  t.equal(await found, true)
})

t.test('a process that does not end is killed', async (t) => {
  const sample = await createSample(t)
  const lookup = new CommitLookup({ timeout: 1_500 })
  const commit = sample.commit()
  await untilFound(lookup, sample, commit)
  await until(() => readersOf(sample.path).length === 1)
  const [pid = 0] = readersOf(sample.path)
  process.kill(pid, 'SIGSTOP')
  await lookup.close()
  t.notOk(isRunning(pid))
})

t.test('a git that cannot end keeps no other one from being asked', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  const folder = temporaryFolder(t)
  const stuck = join(folder, 'stuck')
  // Another process keeps git's output open.
  replaceGit(t, `[ -e ${stuck} ] || exec "$git" "$@"\nsleep 60 & echo $! >> ${stuck}\nexec sleep 60`)
  writeFileSync(stuck, '')
  const lookup = open(t, { timeout: 2_000 })
  const others = () => readFileSync(stuck, 'utf8').split('\n').slice(0, -1).map(Number)
  // On a busy machine it may not have begun by then.
  await until(async () => {
    await t.rejects(lookup.has(sample, commit), /did not answer in time/)
    return others().length > 0
  })
  const keeping = others()
  rmSync(stuck)
  await untilFound(lookup, sample, commit)
  t.ok(keeping.every(isRunning), 'while its output is open')
  for (const pid of keeping) process.kill(pid)
})
