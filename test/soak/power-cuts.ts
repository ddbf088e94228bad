import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRandom } from '../helpers/random.ts'
import { recordEvidence } from './parts/evidence.ts'
import { requireProgram } from './parts/programs.ts'
import type { Cut, Ignores, Names } from './power-cuts/disk.ts'
import { Recording } from './power-cuts/recording.ts'
import type { Traced } from './power-cuts/trace.ts'
import { Verifier } from './power-cuts/verify.ts'
import { record } from './power-cuts/workload.ts'

/**
 * Replays power cuts. A server, its git children and the command line run under strace, while
 * clients push, report, create repositories, make backups and restore one. Then the disk is put
 * together as a power cut may have left it: names and data that nobody had synced are lost, kept or
 * mixed, see `Names` and `fates`. On each such disk the server must start, every repository must be
 * whole and must take a push, and everything must be there that was acknowledged before the cut.
 * Once interrupted pushes are settled, each ref must have the value that the last event about it
 * says.
 *
 * Half of the cuts are at any moment. The others follow an answer, before the next request (0 to 5
 * s); half of these lose each unsynced name by itself. Cuts in the middle of a push keep the order
 * of names: git relies on it, see `createFolderSync`.
 *
 * Finally the syncs of one part are left out of the recording, as if it had never asked for them.
 * Each time something must be found missing, or the replay could not find such a loss at all.
 */
const CUTS = Number(process.env.SOAK_CUTS ?? 1_000)
/** A push through a server takes longer than all other checks together. */
const SERVES_EVERY = 4
const CUTS_OF_A_CONTROL = 150
/** git collects garbage in it, which relies on the order of names. */
const GC = 'owner/gc'

interface Replayed extends Cut {
  /** Whether a server is started on what is left. */
  serves: boolean
}

interface Control {
  name: string
  names: Names
  ignores: Ignores
}

const byGit = ({ program }: Traced) => program !== 'node'
const isPack = (path: string) => /\/(pack|tmp_(pack|idx|rev)_)/.test(path)
const CONTROLS: Control[] = [
  {
    name: 'git syncs packs alone, which is its default, and nobody syncs folders',
    names: 'in order',
    ignores: (sync, of) => (byGit(sync) && !isPack(sync.path)) || (sync.run === 'server' && of === 'folder'),
  },
  {
    name: 'git syncs files, nobody syncs folders after a push',
    names: 'independent',
    ignores: ({ run }, of) => run === 'server' && of === 'folder',
  },
  {
    name: 'a created repository is not synced',
    names: 'in order',
    ignores: ({ run, path }) => run.startsWith('repo-') && path.includes('/repositories'),
  },
  {
    name: 'the folder of a created repository is not synced',
    names: 'independent',
    ignores: ({ run, path }) => run.startsWith('repo-') && path.endsWith('/repositories'),
  },
  { name: 'SQLite syncs nothing', names: 'in order', ignores: ({ path }) => path.includes('.db') },
  { name: 'a backup is not synced', names: 'in order', ignores: ({ path }) => path.includes('/backups') },
  {
    name: 'the folder of a backup is not synced',
    names: 'independent',
    ignores: ({ path }) => path.endsWith('/backups'),
  },
  { name: 'a restore is not synced', names: 'in order', ignores: ({ path }) => path.includes('/place') },
]

const print = (line: string) => process.stdout.write(`${line}\n`)
const seconds = () => `${(performance.now() / 1000).toFixed(0)} s`

requireProgram('strace')
const base = realpathSync(mkdtempSync(join(tmpdir(), 'power-cuts-')))
process.on('exit', (code) => {
  if (code === 0) rmSync(base, { recursive: true, force: true })
  else print(`What was recorded is in ${base}`)
})
const folder = join(base, 'disk')
for (const name of ['', '.traces', '.cuts']) mkdirSync(`${folder}${name}`)

const recording = new Recording(await record(folder, `${folder}.traces`))
print(`recorded ${recording.length} actions of ${recording.steps.length} requests and commands: ${seconds()}`)

const verifier = new Verifier(folder)

/** Replays cuts, some at a time, until one has done harm. @returns what it was and what is wrong */
async function replay(cuts: readonly Replayed[]): Promise<string[]> {
  const waiting = cuts.entries()
  const problems: string[] = []
  const work = async () => {
    for (const [index, cut] of waiting) {
      if (problems.length > 0) return
      const disk = mkdtempSync(`${folder}.cuts/cut-`)
      recording.disk.write(disk, cut)
      const found = await verifier.verify(disk, recording.promisedAt(cut.at), {
        serves: cut.serves,
        leavesOut: cut.names === 'independent' ? [GC] : [],
      })
      await rm(disk, { recursive: true })
      if (found.length > 0) problems.push(`cut ${index} (${recording.describe(cut)})`, ...found.slice(0, 5))
      if ((index + 1) % 100 === 0) print(`${index + 1} cuts: ${seconds()}`)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  return problems
}

const seed = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000)
print(`seed ${seed}`)
const cuts = Array.from({ length: CUTS }, (_, index): Replayed => {
  const random = createRandom(seed + index)
  const serves = index % SERVES_EVERY === 0
  if (index % 2 === 0) return { at: recording.anywhere(random), names: 'in order', random, serves }
  const names = random.pick(['in order', 'independent'])
  return { at: recording.afterAnswer(random), names, random, serves }
})
assert.deepEqual(await replay(cuts), [])
print(
  `${CUTS} power cuts: nothing that was acknowledged is lost, every repository can be cloned and pushed to, and the events of pushes agree with the refs; after ${verifier.settled} of them a push was settled`,
)

for (const { name, names, ignores } of CONTROLS) {
  const cuts = Array.from({ length: CUTS_OF_A_CONTROL }, (_, index): Replayed => {
    const random = createRandom(seed + index)
    return { at: recording.afterAnswer(random), names, random, ignores, serves: false }
  })
  const [cut, problem] = await replay(cuts)
  assert(problem !== undefined, `control "${name}": nothing was lost, so the replay cannot find such a loss`)
  print(`control "${name}": ${cut}:\n  ${problem.split('\n').at(0)}`)
}
recordEvidence(
  'power-cuts',
  'the power was cut, while clients pushed and reported, and during backups and restores',
  `${CUTS} cuts: nothing acknowledged was lost, every repository was whole; ${CONTROLS.length} of ${CONTROLS.length} losses planted for control were found`,
)
