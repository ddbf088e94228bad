import { randomUUID } from 'node:crypto'
import { createClaim } from '../../../clients/typescript/src/cli/work/claim.ts'
import type { ReportStatusResult, StatusReport } from '../../../clients/typescript/src/index.ts'
import { sleep } from '../../../clients/typescript/src/sleep.ts'
import { toStatus } from '../../../src/api/handlers.ts'
import { ServiceError, TryLater } from '../../../src/errors.ts'
import type { Store } from '../../../src/store/store.ts'
import { formatTime } from '../../../src/store/time.ts'
import type { Random } from '../../helpers/random.ts'
import type { Host, VirtualTime } from './virtual-time.ts'

/*
 * Random histories of workers: what the documents say of them, with the claims of the real client at the
 * real store, in virtual time. Between the two, requests and answers are lost, late by up to 10 minutes
 * and delivered twice; the server is away; workers stand still and are killed; branches move, also
 * back; and people ask for another run.
 */

/** A report that came to the server. */
export interface Arrival {
  sha: string
  run: string | undefined
  state: StatusReport['state']
  isStored: boolean
  sentAt: number
  at: number
}

/** A command that a worker ran. */
export interface Command {
  sha: string
  run: string
  worker: number
  start: number
  end: number
}

/** What happened in a history. Times in milliseconds since the epoch. */
export interface History {
  arrivals: Arrival[]
  commands: Command[]
  requests: { sha: string; at: number }[]
  /** What disturbed one worker, or all. */
  disturbances: { worker?: number; from: number; to: number }[]
  /** The newest commit of each branch, and its state at the end. */
  tips: { sha: string; state: string | undefined; run: string | undefined }[]
}

const CONTEXT = 'ci'
const [SECOND, MINUTE] = [1_000, 60_000]
/** Longest time of an attempt to send a report, and longest delay of its delivery. */
const [TIMEOUT, LATEST] = [10 * SECOND, 600 * SECOND]
/** Time in which all is done once nothing is disturbed any more. */
const END = 240 * MINUTE
/** The last worker claims for 10 seconds. */
const WORKERS = [
  { claim: 300, renewal: 100 * SECOND, refusal: MINUTE },
  { claim: 300, renewal: 100 * SECOND, refusal: MINUTE },
  { claim: 10, renewal: 3 * SECOND, refusal: MINUTE },
]

interface Worker {
  index: number
  host: Host
  /** What is written down of its job, with its command. */
  job: { sha: string; run: string; command?: Command | undefined } | undefined
}

/** Runs a history. @param prefix begins the ids of its commits */
export async function runHistory(
  {
    store,
    repositoryId,
    time,
    random,
  }: { store: Store; repositoryId: number; time: VirtualTime; random: Random },
  prefix: string,
): Promise<History> {
  const history: History = { arrivals: [], commands: [], requests: [], disturbances: [], tips: [] }
  const chaos = random.pick([10, 20, 40]) * MINUTE
  const every = random.pick([5, 20, 60]) * SECOND
  const isSlow = random.onceIn(2)
  const start = time.now()
  const branches = new Map<string, string>()
  const commits: string[] = []
  let isAway = false
  let isQuiet = false
  /** Reports that are still on their way. */
  let underway = 0

  const between = (from: number, to: number) => from + random.below(to - from)
  const newHost = (): Host => ({ stalledUntil: 0, isKilled: false })

  function push(): void {
    const isForced = commits.length > 0 && random.onceIn(3)
    const sha = isForced ? random.pick(commits) : (prefix + commits.length.toString(16)).padEnd(40, '0')
    if (!isForced) commits.push(sha)
    branches.set(random.pick(['main', 'topic']), sha)
  }

  /** Has the server decide a report. */
  async function deliver(sha: string, body: StatusReport, sentAt: number): Promise<ReportStatusResult> {
    const { state, run } = body
    const arrival = { sha, run, state, isStored: false, sentAt, at: time.now() }
    history.arrivals.push(arrival)
    try {
      const { claimed_until: until, ...row } =
        (await time.wait(store.statuses.report({ ...body, repositoryId, sha, context: CONTEXT }))) ?? {}
      if (!('id' in row)) throw new Error('the repository is missing')
      arrival.isStored = true
      const claimed = until === undefined ? {} : { claimed_until: formatTime(until) }
      return { status: 201, body: { ...toStatus(row), ...claimed }, headers: new Headers() }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const retryAfter = error instanceof TryLater ? { 'Retry-After': `${error.retryAfter}` } : {}
      return { status: 409, body: { error: error.message }, headers: new Headers(retryAfter) }
    }
  }

  /** Sends a report of a worker over a bad network. */
  function send(host: Host, sha: string, body: StatusReport): Promise<ReportStatusResult> {
    // What is measured at each attempt is read here.
    const sent = { ...body }
    const sentAt = time.now()
    return new Promise((resolve) => {
      const answer = (milliseconds: number, of: ReportStatusResult) =>
        time.after(milliseconds, () => resolve(of), host)
      const away: ReportStatusResult = {
        status: 0,
        body: { error: 'no answer', reason: 'unreachable' },
        headers: new Headers(),
      }
      const arrive = (milliseconds: number, isAnswered: boolean) => {
        underway++
        time.after(milliseconds, () => {
          const delivered = isAway ? Promise.resolve(away) : deliver(sha, sent, sentAt)
          void delivered.then((of) => {
            underway--
            if (isAnswered) answer(between(1, 200), of)
          })
        })
      }
      const fate = isQuiet ? 'arrives' : random.pick(FATES)
      if (fate === 'arrives' || fate === 'arrives twice') arrive(between(1, 300), true)
      else answer(TIMEOUT, away)
      if (fate === 'answer lost') arrive(between(1, 300), false)
      if (fate === 'late' || fate === 'arrives twice') arrive(between(SECOND, LATEST), false)
    })
  }

  /** Returns what waits; undefined if there is no answer. */
  async function awaiting() {
    if (isAway) return undefined
    const shas = [...new Set(branches.values())]
    const rows = await time.wait(
      store.awaited({ repositoryId, context: CONTEXT, shas: JSON.stringify(shas) }),
    )
    return rows.map(({ position, state }) => ({ sha: shas[position] ?? '', state }))
  }

  /** Runs one job until it has ended. Returns for how many seconds the commit is not to be claimed again. */
  async function runJob(worker: Worker, sha: string, left?: string): Promise<number> {
    const { host, index } = worker
    const run = left ?? randomUUID()
    worker.job = { sha, run }
    const repository = {
      ...{
        owner: 'acme',
        repo: 'rocket',
        name: 'acme/rocket',
        context: CONTEXT,
        waiting: new Map(),
      },
      read: () => Promise.reject(new Error('not read by a claim')),
      report: (of: string, body: StatusReport) => send(host, of, body),
    }
    const times = WORKERS[index]
    if (!times) throw new Error('no such worker')
    const claim = createClaim({ repository, sha, run, targetUrl: undefined, times })
    const never = new AbortController().signal
    const taken = await claim.take(never, never)
    if (taken.kind !== 'held') {
      worker.job = undefined
      return taken.kind === 'taken' ? taken.seconds : 0
    }
    let result: 'success' | 'failure' | 'error' | undefined
    if (left !== undefined) {
      let waiting = await awaiting()
      for (; !waiting && !claim.lost.aborted; waiting = await awaiting()) await sleep(SECOND, claim.lost)
      if (waiting?.every((each) => each.sha !== sha)) result = 'error'
    }
    if (result === undefined && !claim.lost.aborted) {
      const seconds = isSlow ? between(60, 1_200) : between(1, 90)
      const command = { sha, run, worker: index, start: time.now(), end: time.now() + seconds * SECOND }
      history.commands.push(command)
      worker.job.command = command
      await sleep(seconds * SECOND, claim.lost)
      command.end = Math.min(command.end, time.now())
      result = random.pick(['success', 'failure'])
    }
    let { loss } = claim
    if (result !== undefined && !loss) {
      const sent = await claim.finish({ state: result, description: run }, never)
      if (typeof sent === 'object') loss = sent
    }
    worker.job = undefined
    return loss?.kind === 'taken' ? loss.seconds : Number.POSITIVE_INFINITY
  }

  async function work(worker: Worker): Promise<void> {
    const heldBack = new Map<string, { since: number; until: number }>()
    const { job } = worker
    if (job?.command) job.command.end = Math.min(job.command.end, time.now())
    if (job) await runJob(worker, job.sha, job.run)
    for (;;) {
      const began = time.now()
      const waiting = await awaiting()
      for (const [sha, { since, until }] of waiting ? heldBack : []) {
        if (until === Number.POSITIVE_INFINITY && since < began) heldBack.delete(sha)
      }
      const next = waiting?.find(({ sha }) => (heldBack.get(sha)?.until ?? 0) <= time.now())
      if (next) {
        // It is fetched first.
        await sleep(between(100, 3_000))
        const seconds = isAway ? 0 : await runJob(worker, next.sha)
        heldBack.set(next.sha, { since: time.now(), until: time.now() + seconds * SECOND })
      }
      await sleep(next ? 100 : every)
    }
  }

  function startWorker(worker: Worker): void {
    worker.host = newHost()
    time.start(worker.host, () => work(worker))
  }

  const workers = WORKERS.map((_, index): Worker => ({ index, host: newHost(), job: undefined }))

  function killWorker(): void {
    const worker = random.pick(workers)
    if (worker.host.isKilled) return
    worker.host.isKilled = true
    const isForGood = worker.index > 0 && random.onceIn(4)
    const pause = isForGood ? 2 * END : between(SECOND, 5 * MINUTE)
    history.disturbances.push({ worker: worker.index, from: time.now(), to: time.now() + pause })
    if (!isForGood) time.after(pause, () => startWorker(worker))
  }

  function stallWorker(): void {
    const { host, index } = random.pick(workers)
    const pause = between(5 * SECOND, 15 * MINUTE)
    host.stalledUntil = Math.max(host.stalledUntil, time.now() + pause)
    history.disturbances.push({ worker: index, from: time.now(), to: host.stalledUntil })
  }

  function goAway(): void {
    if (isAway) return
    isAway = true
    const pause = between(SECOND, 12 * MINUTE)
    history.disturbances.push({ from: time.now(), to: time.now() + pause })
    time.after(pause, () => {
      isAway = false
    })
  }

  function request(): void {
    const sha = random.pick([...branches.values()])
    if (isAway) return
    const at = time.now()
    void deliver(sha, { state: 'pending', context: CONTEXT }, at).then(() =>
      history.requests.push({ sha, at }),
    )
  }

  const events = [push, push, request, request, request, killWorker, stallWorker, goAway]
  push()
  for (const worker of workers) startWorker(worker)
  for (let count = between(2, 20); count > 0; count--) time.after(random.below(chaos), random.pick(events))
  time.after(chaos, () => {
    isQuiet = true
  })

  let isDone = false
  // Whether all is done is looked at once a minute.
  const look = () =>
    void awaiting().then((waiting) => {
      isDone = isQuiet && underway === 0 && waiting?.length === 0
      if (!isDone) time.after(MINUTE, look)
    })
  time.after(chaos, look)
  await time.pass(chaos + END, () => isDone)

  for (const worker of workers) worker.host.isKilled = true
  if (!isDone) throw new Error(`not done ${(time.now() - start) / MINUTE} minutes after the start`)
  for (const sha of new Set(branches.values())) {
    const rows = await store.statuses.listWithReporters({ repositoryId, sha })
    history.tips.push({ sha, state: rows[0]?.state, run: rows[0]?.run ?? undefined })
  }
  return history
}

/** What becomes of a report that is sent. */
const FATES = [
  ...Array.from({ length: 14 }, () => 'arrives' as const),
  ...(['arrives twice', 'arrives twice', 'request lost', 'answer lost', 'late', 'late'] as const),
]
