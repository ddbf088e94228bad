import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { CommitLookup, type CommitLookupOptions } from '../../../src/git/objects/commit-lookup.ts'
import { minimalEnvironment } from '../../helpers/process.ts'
import { until } from '../../helpers/until.ts'
import { createSample, isRunning, readersOf, type SampleRepository } from '../sample-repository.ts'

function open(t: Test, options?: CommitLookupOptions) {
  const lookup = new CommitLookup(options)
  t.teardown(() => lookup.close())
  return lookup
}

async function createSamples(
  t: Test,
  count: number,
): Promise<{ sample: SampleRepository; commit: string }[]> {
  const samples = await Promise.all(Array.from({ length: count }, () => createSample(t)))
  return samples.map((sample) => ({ sample, commit: sample.commit(sample.path) }))
}

t.test('each repository has one process, and the least recently used one ends first', async (t) => {
  const [a, b, c] = await createSamples(t, 3)
  if (a === undefined || b === undefined || c === undefined) throw new Error('three samples')
  const lookup = open(t, { maxProcesses: 2 })
  const find = ({ sample, commit }: typeof a) => lookup.has(sample, commit)
  t.same([await find(a), await find(b), await find(a)], [true, true, true])
  t.equal(lookup.size, 2)
  const before = readersOf(a.sample.path)
  t.equal(before.length, 1)
  t.equal(await find(c), true)
  t.equal(lookup.size, 2)
  t.same(readersOf(b.sample.path), [])
  t.same(readersOf(a.sample.path), before)
})

for (const maxProcesses of [1, 3]) {
  t.test(`${maxProcesses} processes serve many repositories at once, and no answer is lost`, async (t) => {
    const samples = await createSamples(t, 8)
    const lookup = open(t, { maxProcesses })
    let most = 0
    const ask = async (from: SampleRepository, commit: string) => {
      const found = await lookup.has(from, commit)
      most = Math.max(most, lookup.size)
      return found
    }
    for (let round = 0; round < 3; round += 1) {
      const asked = samples.flatMap(({ sample }) => samples.map(({ commit }) => ask(sample, commit)))
      const expected = samples.flatMap(({ sample }) => samples.map((other) => other.sample === sample))
      t.same(await Promise.all(asked), expected)
    }
    t.equal(most, maxProcesses)
  })
}

t.test('a hanging repository does not block the others, even with one process', async (t) => {
  const [a, b] = await createSamples(t, 2)
  if (a === undefined || b === undefined) throw new Error('two samples')
  const lookup = open(t, { maxProcesses: 1, timeout: 200 })
  // On a busy machine git may not have begun in time.
  await until(() => lookup.has(a.sample, a.commit).catch(() => false))
  for (const pid of readersOf(a.sample.path)) process.kill(pid, 'SIGSTOP')
  const hanging = t.rejects(lookup.has(a.sample, a.commit), { name: 'RepositoryUnavailable' })
  await new Promise((resolve) => setTimeout(resolve, 50))
  await until(() => lookup.has(b.sample, b.commit).catch(() => false))
  await hanging
})

t.test('closing completes pending lookups, ends the processes and refuses new lookups', async (t) => {
  const samples = await createSamples(t, 3)
  const lookup = new CommitLookup({ maxProcesses: 2 })
  const asked = samples.map(({ sample, commit }) => lookup.has(sample, commit))
  await Promise.all([lookup.close(), lookup.close()])
  t.same(await Promise.all(asked), [true, true, true])
  t.equal(lookup.size, 0)
  for (const { sample, commit } of samples) {
    t.same(readersOf(sample.path), [])
    await t.rejects(lookup.has(sample, commit), { name: 'RepositoryUnavailable', message: /closed/ })
  }
  await new CommitLookup().close()
})

t.test('the processes end with the server, also if it is killed', async (t) => {
  const sample = await createSample(t)
  const { path } = sample
  const argument = JSON.stringify({ repository: sample, sha: sample.commit() })
  const program = join(import.meta.dirname, '../fixtures/lookup.ts')
  const server = spawn(process.execPath, [program, argument], {
    env: minimalEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [outcome] = await once(server.stdout, 'data')
  t.equal(String(outcome), 'true\n')
  const [pid = 0] = readersOf(path)
  t.ok(isRunning(pid))
  server.kill('SIGKILL')
  await until(() => !isRunning(pid))
})
