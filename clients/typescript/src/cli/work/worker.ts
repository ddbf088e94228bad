import { sleep } from '../../sleep.ts'
import { exitCodes } from '../exit-codes.ts'
import { TOPICS } from '../git.ts'
import { createOutageNotice, type OutageNotice } from '../outage.ts'
import { say } from '../terminal.ts'
import type { RepositoryCache } from './cache.ts'
import type { JobRecord } from './folder.ts'
import { type Job, type JobEnd, type JobSettings, startJob } from './job.ts'
import { OUTDATED, type Repository, type WaitingCommit } from './repository.ts'

export interface WorkerOptions {
  settings: JobSettings
  watched: readonly { repository: Repository; cache: RepositoryCache }[]
  /** What a killed worker has left. */
  left: readonly { record: JobRecord; repository: Repository; cache: RepositoryCache }[]
  /** Longest number of jobs at a time. */
  jobs: number
  /** Milliseconds between two questions for one repository. */
  every: number
  /** Whether a job ends when its branch has moved away. */
  cancel: boolean
  /** Called when nothing more is to be claimed. */
  abandon(reason: string): void
}

/** A repository and what is known of its commits, by id. */
interface Watched {
  repository: Repository
  cache: RepositoryCache
  onOutage: OutageNotice
  running: Map<string, Job>
  /**
   * Not to be claimed before a time, both by `performance.now()`. If that is infinite, not before a list
   * that was asked for later than `since`.
   */
  heldBack: Map<string, { since: number; until: number; by: JobEnd['kind'] }>
  failures: Map<string, number>
  old: Set<string>
  /** Whether the last question was refused. */
  isRefused: boolean
  /** The last problem that was said. */
  problem: string | undefined
}

/** Starts jobs for what waits. */
export interface Worker {
  /** Asks each repository in turn until `stop` is aborted, and resolves when all jobs have ended. */
  watch(): Promise<void>
  /** Asks until nothing is to do, or abandons it without an answer. Returns the exit code for all jobs. */
  workOnce(): Promise<number>
}

/**
 * Creates a worker. What it knows of a commit that waits:
 *
 *    ready ──▶ running ──▶ held back ──▶ ready      after Retry-After, or with the next list
 *
 * A list that was asked for after a result was stored, or found, has the commit only if another run was
 * requested since: also a list that is the same as the one before. The next list also lets a commit be
 * tried again that could not be fetched.
 */
export function createWorker(options: WorkerOptions): Worker {
  const { settings, jobs, every, cancel } = options
  const { stop, times } = settings
  const watched = options.watched.map(createWatched)
  const left = [...options.left]
  const running = new Set<Promise<void>>()
  let exitCode: number = exitCodes.success
  /** Repositories take turns. */
  let turn = 0

  /** Asks one repository what waits. Returns whether there was an answer. */
  async function poll(place: Watched): Promise<boolean> {
    const { repository, heldBack } = place
    const began = performance.now()
    const reading = await repository.read(stop).catch((error: unknown) => {
      if (!stop.aborted) throw error
    })
    if (!reading) return false
    place.onOutage(reading.kind === 'away' ? reading.reason : null)
    if (reading.kind === 'refused') complain(place, `the server refuses: ${reading.reason}`)
    place.isRefused = reading.kind === 'refused'
    if (reading.kind !== 'read') return false
    for (const [sha, { since, until }] of heldBack) {
      if (until === Number.POSITIVE_INFINITY && since < began) heldBack.delete(sha)
    }
    for (const known of [heldBack, place.failures, place.old]) {
      for (const sha of known.keys()) if (!repository.waiting.has(sha)) known.delete(sha)
    }
    if (cancel) for (const [sha, job] of place.running) if (!repository.waiting.has(sha)) job.cancel()
    fill()
    return true
  }

  /** Says a problem once, until a job was done. */
  function complain(place: Watched, problem: string): void {
    if (place.problem !== problem) say(`${place.repository.name}: ${problem}`)
    place.problem = problem
  }

  /** Starts jobs while there are places. */
  function fill(): void {
    while (!stop.aborted && running.size < jobs) {
      const next = left.shift()
      if (next) startLeft(next)
      else if (!startNext()) return
    }
  }

  function startLeft({ record, repository, cache }: WorkerOptions['left'][number]): void {
    const { sha, branch } = record
    const task = {
      repository,
      cache,
      tip: { sha, branch },
      isAskedFor: true,
      failures: 0,
      left: record,
    } as const
    const place = watched.find((other) => other.repository === repository)
    track(startJob(settings, task), place ?? createWatched({ repository, cache }), sha)
  }

  function startNext(): boolean {
    for (let count = 0; count < watched.length; count++) {
      const place = watched[turn++ % watched.length]
      const commit = place && [...place.repository.waiting.values()].find((each) => isReady(place, each))
      if (!place || !commit) continue
      const { repository, cache, failures } = place
      const {
        sha,
        branches: [branch = ''],
      } = commit
      const job = startJob(settings, {
        repository,
        cache,
        tip: { sha, branch },
        isAskedFor: isAskedFor(commit),
        failures: failures.get(sha) ?? 0,
      })
      track(job, place, sha)
      return true
    }
    return false
  }

  function isReady({ running, heldBack, old, isRefused }: Watched, commit: WaitingCommit): boolean {
    const { sha } = commit
    if (isRefused || running.has(sha) || (old.has(sha) && !isAskedFor(commit))) return false
    return performance.now() >= (heldBack.get(sha)?.until ?? 0)
  }

  function track(job: Job, place: Watched, sha: string): void {
    place.running.set(sha, job)
    const ended = job.ended.then((end) => {
      running.delete(ended)
      place.running.delete(sha)
      settle(place, sha, end)
      exitCode = Math.max(exitCode, exitCodeOf(end))
      if (end.kind === 'outdated') options.abandon(OUTDATED)
      fill()
    })
    running.add(ended)
  }

  /** Remembers what a job has shown. */
  function settle(place: Watched, sha: string, end: JobEnd): void {
    const { repository, heldBack, failures, old } = place
    const now = performance.now()
    const hold = (milliseconds: number) =>
      heldBack.set(sha, { since: now, until: now + milliseconds, by: end.kind })
    heldBack.delete(sha)
    if (end.kind !== 'unfetched') failures.delete(sha)
    switch (end.kind) {
      case 'done':
        place.problem = undefined
        hold(Number.POSITIVE_INFINITY)
        break
      case 'old':
        old.add(sha)
        say(`${repository.name}: left alone, since it is older than --max-age: ${describe(place, sha)}`)
        break
      case 'unfetched':
        failures.set(sha, (failures.get(sha) ?? 0) + 1)
        hold(Number.POSITIVE_INFINITY)
        break
      case 'taken':
        hold(end.seconds * 1_000)
        break
      case 'refused':
        complain(place, `the server refuses: ${end.reason}`)
        hold(times.refusal)
        break
      case 'unwritten':
        complain(place, `cannot write down a job: ${end.reason}`)
        hold(times.refusal)
    }
  }

  async function watchOne(place: Watched, offset: number): Promise<void> {
    await sleep(offset, stop)
    while (!stop.aborted) {
      await poll(place)
      await sleep(place.isRefused ? times.refusal : every, stop)
    }
  }

  /** Resolves when no job runs. */
  async function idle(): Promise<void> {
    while (running.size > 0) await Promise.all(running)
  }

  return {
    async watch() {
      fill()
      // Spread over the interval.
      await Promise.all(watched.map((place, index) => watchOne(place, (every * index) / watched.length)))
      await idle()
    },
    async workOnce() {
      fill()
      for (;;) {
        const answers = await Promise.all(watched.map(poll))
        if (!stop.aborted && !answers.every(Boolean)) options.abandon('--once: no answer')
        const isIdle = running.size === 0
        await idle()
        if (stop.aborted) return exitCode
        if (watched.some(({ failures }) => failures.size > 0)) await sleep(every, stop)
        else if (isIdle) {
          // A request can be claimed once its second has passed.
          const holds = watched.flatMap(({ heldBack }) => [...heldBack.values()])
          const ends = holds.filter(({ by }) => by === 'taken').map(({ until }) => until)
          const pause = Math.min(...ends) - performance.now()
          if (pause > SOON) return exitCode
          await sleep(pause, stop)
        }
      }
    },
  }
}

function createWatched(place: Pick<Watched, 'repository' | 'cache'>): Watched {
  return {
    ...place,
    onOutage: createOutageNotice((message) => say(`${place.repository.name}: ${message}`)),
    running: new Map(),
    heldBack: new Map(),
    failures: new Map(),
    old: new Set(),
    isRefused: false,
    problem: undefined,
  }
}

/** Returns whether somebody asks for a run of a commit, or lands it: then its age does not matter. */
function isAskedFor({ state, branches }: WaitingCommit): boolean {
  return state !== null || branches.some((name) => name.startsWith(TOPICS))
}

/** Milliseconds for which `--once` waits for a commit that cannot be claimed yet. */
const SOON = 2_000

function exitCodeOf(end: JobEnd): number {
  if (end.kind === 'refused' || end.kind === 'unwritten') return exitCodes.unanswered
  return end.kind === 'done' && end.state !== 'success' ? exitCodes.failure : exitCodes.success
}

function describe({ repository }: Watched, sha: string): string {
  return `${sha} of ${repository.waiting.get(sha)?.branches.join(', ')}`
}
