import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { findProcesses } from '../../clients/typescript/src/cli/work/processes.ts'
import { openWorkPlace } from '../../clients/typescript/test/helpers/working.ts'
import type { components } from '../../generated/schema.ts'
import { type TestDatabase, temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { createRandom } from '../helpers/random.ts'
import { startServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'

/**
 * Three workers run what is pushed, while they are killed and stand still, and the server and PostgreSQL
 * are killed and restarted. Each newest commit gets its result, from a run that was carried out; no request
 * for another run is lost; and two commands of a commit run at once only where a worker of theirs was
 * killed or stood still, or the server was away for longer than a claim.
 *
 * `npm run soak -- work`
 */
const MINUTES = Number(process.env.SOAK_MINUTES ?? 5)
const PUSHES = 200
const WORKERS = 3
const BRANCHES = 12
/** Milliseconds of a claim of these workers. */
const CLAIM = 10_000

/** Says when it begins and ends, and names its run in the result; some take longer than a claim. */
const SCRIPT = `
  echo "START $WORKER $COMMIT_STATUS_SHA $COMMIT_STATUS_RUN $(date +%s%3N)" >> "$JOURNAL"
  setsid sleep 1000 > /dev/null 2>&1 &
  sleep "$SECONDS_OF_WORK"
  echo "<testcase name='$COMMIT_STATUS_RUN'><failure/></testcase>" > report.xml
  echo "END $WORKER $COMMIT_STATUS_SHA $COMMIT_STATUS_RUN $(date +%s%3N)" >> "$JOURNAL"
  exit 1`

interface Run {
  worker: string
  sha: string
  start: number
  /** Missing for one that was killed. */
  end?: number
}

type AwaitingPage = components['schemas']['AwaitingPage']

tap.setTimeout((MINUTES + 10) * 60_000)
tap.test(`${PUSHES} pushes in ${MINUTES} minutes`, async (t) => {
  const seed = Number(process.env.SOAK_SEED ?? Date.now() % 100_000)
  t.comment(`seed ${seed}`)
  const { below, pick } = createRandom(seed)
  const random = () => below(1_000_000) / 1_000_000
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  const database: TestDatabase = {
    name: 'PostgreSQL',
    create: async () => ({ dataDir: temporaryFolder(t), databaseUrl: postgres.url }),
  }
  const server = await startServer(t, { database })
  const place = await openWorkPlace(t, server, 'acme/rocket')
  const PORT = String(await freePort())
  let instance = await startInstance(t, server.options, { PORT })
  const url = instance.url
  const journal = join(temporaryFolder(t), 'journal')
  const folders = Array.from({ length: WORKERS }, () => join(temporaryFolder(t), 'work'))

  /** When a worker was disturbed, or all were; by the clock that the commands use. */
  const disturbances: { worker?: string; from: number; to: number }[] = []
  const tips = new Map<string, string>()
  const requests: { sha: string; at: number }[] = []
  let [kills, stalls, restarts] = [0, 0, 0]

  const startWorker = (index: number) =>
    place.workAlone(['--jobs', '2', '--junit', 'report.xml'], {
      folder: folders[index] ?? '',
      command: ['sh', '-c', `SECONDS_OF_WORK=$(cat seconds) exec sh ci.sh`],
      env: { COMMIT_STATUS_URL: url, WORKER: String(index), JOURNAL: journal },
    })
  const workers = folders.map((_, index) => startWorker(index))
  function push(): void {
    const branch = `b${Math.floor(random() * BRANCHES)}`
    const seconds = random() < 0.1 ? 12 : random() * 3
    tips.set(branch, place.push(branch, SCRIPT, { files: { seconds: { text: `${seconds}\n` } } }))
  }

  async function killWorker(): Promise<void> {
    const index = Math.floor(random() * WORKERS)
    const worker = workers[index]
    if (!worker) return
    const from = Date.now()
    worker.child.kill('SIGKILL')
    await worker.finished
    await setTimeout(random() * 3_000)
    workers[index] = startWorker(index)
    disturbances.push({ worker: String(index), from, to: Date.now() + 10_000 })
    kills++
  }

  async function stallWorker(): Promise<void> {
    const index = Math.floor(random() * WORKERS)
    const from = Date.now()
    workers[index]?.child.kill('SIGSTOP')
    await setTimeout(CLAIM * (0.5 + random()))
    workers[index]?.child.kill('SIGCONT')
    disturbances.push({ worker: String(index), from, to: Date.now() + 10_000 })
    stalls++
  }

  async function restartServer(): Promise<void> {
    const from = Date.now()
    const exited = once(instance.child, 'exit')
    instance.child.kill('SIGKILL')
    await exited
    await setTimeout(random() * 1.5 * CLAIM)
    instance = await startInstance(t, server.options, { PORT })
    if (Date.now() - from > CLAIM / 2) disturbances.push({ from, to: Date.now() + 10_000 })
    restarts++
  }

  async function crashDatabase(): Promise<void> {
    const from = Date.now()
    await postgres.crash()
    if (Date.now() - from > CLAIM / 2) disturbances.push({ from, to: Date.now() + 10_000 })
    restarts++
  }

  async function request(): Promise<void> {
    const sha = pick([...tips.values()]) ?? ''
    const at = Date.now()
    const answer = await instance
      .report('acme/rocket', sha, { state: 'pending', context: 'ci' }, place.token)
      .catch(() => undefined)
    if (answer?.status === 201) requests.push({ sha, at })
  }

  const end = Date.now() + MINUTES * 60_000
  const isOver = () => Date.now() > end
  async function pusher(): Promise<void> {
    for (let count = 0; count < PUSHES; count++) {
      push()
      await setTimeout(random() * 2 * ((MINUTES * 60_000) / PUSHES))
    }
  }
  async function disturber(pause: number, ...deeds: (() => Promise<void>)[]): Promise<void> {
    while (!isOver()) {
      await setTimeout(random() * 2 * pause)
      await pick(deeds)?.()
    }
  }
  push()
  await Promise.all([
    pusher(),
    disturber(8_000, killWorker),
    disturber(15_000, stallWorker),
    disturber(25_000, restartServer, crashDatabase),
    disturber(10_000, request),
  ])

  const awaiting = async () => {
    const answer = await fetch(`${url}/api/v1/repos/acme/rocket/awaiting?context=ci`)
    const page = answer.ok ? ((await answer.json()) as AwaitingPage) : undefined
    return page?.branches.length
  }
  for (const limit = Date.now() + 240_000; (await awaiting()) !== 0; await setTimeout(1_000))
    assert(Date.now() < limit, `${await awaiting()} branches still wait`)
  await setTimeout(2_000)
  for (const { child } of workers) child.kill('SIGTERM')
  for (const { finished } of workers) t.equal((await finished).code, 0)

  const runs = readJournal(journal)
  for (const [branch, sha] of tips) {
    const result = (await place.result(sha)) ?? ''
    const [, run = ''] = /^failure: 1 of 1 failed: (\S+)$/.exec(result) ?? []
    t.ok(runs.get(run)?.end, `${branch}: ${result}`)
  }
  const newest = new Set(tips.values())
  for (const { sha, at } of requests.filter((each) => newest.has(each.sha))) {
    const later = [...runs.values()].filter((run) => run.sha === sha && run.start >= at - 2_000)
    t.ok(later.length > 0, `a request of ${sha} was followed by a run`)
  }
  let overlaps = 0
  const complete = [...runs.values()].filter((run): run is Run & { end: number } => run.end !== undefined)
  for (const first of complete) {
    for (const second of complete) {
      if (first === second || first.sha !== second.sha) continue
      if (second.start < first.start || second.start >= first.end) continue
      overlaps++
      const cause = disturbances.find(
        ({ worker, from, to }) =>
          (worker === undefined || worker === first.worker || worker === second.worker) &&
          from <= second.start &&
          to >= first.start,
      )
      t.ok(cause, `two runs of ${first.sha} at once: ${JSON.stringify([first, second])}`)
    }
  }
  for (const run of runs.keys()) assert.deepEqual(findProcesses({ run }), [], run)
  for (const folder of folders) t.strictSame(jobsIn(folder), [])
  const { size } = runs
  t.comment(
    JSON.stringify({
      size,
      complete: complete.length,
      kills,
      stalls,
      restarts,
      requests: requests.length,
      overlaps,
    }),
  )
  t.ok(kills > 5 && stalls > 3 && restarts > 3)
  const together =
    overlaps === 0
      ? 'no two commands ran on one commit at once'
      : `commits on which two commands ran at once: ${overlaps}, each beside what had stopped one of them`
  if (t.passing())
    recordEvidence(
      'work',
      'three workers ran what was pushed, while they were killed and stood still, and the server and PostgreSQL were killed and restarted',
      `${PUSHES} pushes, ${kills} kills, ${stalls} stalls and ${restarts} restarts: each newest commit got the result of a run that was carried out, none of ${requests.length} requests for another run was lost, and ${together}`,
    )
})

function readJournal(journal: string): Map<string, Run> {
  const runs = new Map<string, Run>()
  for (const line of readFileSync(journal, 'utf8').split('\n')) {
    const [what, worker = '', sha = '', run = '', time] = line.split(' ')
    // A run that is begun again has the same name.
    if (what === 'START') runs.set(run, { worker, sha, start: Number(time) })
    const known = runs.get(run)
    if (what === 'END' && known) known.end = Number(time)
  }
  return runs
}

function jobsIn(folder: string): string[] {
  return existsSync(join(folder, 'jobs')) ? readdirSync(join(folder, 'jobs')) : []
}
