import { randomUUID } from 'node:crypto'
import { realpathSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { operations } from '../../generated/operations.ts'
import { anyAborted, signalUntil, sleep } from '../../sleep.ts'
import type { Ending } from '../command.ts'
import { describeResult } from '../ending.ts'
import { plain, say } from '../terminal.ts'
import type { CachedTip, RepositoryCache } from './cache.ts'
import { type ClaimTimes, createClaim, type Loss, type Result } from './claim.ts'
import { startCommand } from './command.ts'
import type { JobRecord, WorkFolder } from './folder.ts'
import { type LogSettings, openOutput } from './output.ts'
import { MARK } from './processes.ts'
import type { Repository } from './repository.ts'

/** What all jobs of a worker have in common. */
export interface JobSettings {
  command: readonly [file: string, args: readonly string[]]
  /** The environment of the command, to which each job adds its own variables. */
  env: NodeJS.ProcessEnv
  folder: WorkFolder
  junit: readonly string[]
  /** Milliseconds; an older commit that nobody asks for is left alone. */
  maxAge: number
  logs: LogSettings | undefined
  /** Whether lines at the terminal begin with the name of the job. */
  hasLabels: boolean
  times: ClaimTimes & { grace: number }
  /** Aborted when nothing more is to be claimed. */
  stop: AbortSignal
  /** Aborted when all commands are to be ended. */
  kill: AbortSignal
}

/** One commit of one repository, for which the command is to run. */
export interface JobTask {
  repository: Repository
  cache: RepositoryCache
  tip: CachedTip
  /** Whether somebody asks for a run of the commit, however old it is. */
  isAskedFor: boolean
  /** How often the commit could not be fetched. */
  failures: number
  /** The run of a killed worker that is to be finished. */
  left?: JobRecord | undefined
}

export type JobEnd =
  | { kind: 'done'; state: Result['state'] }
  /** Older than `maxAge`. */
  | { kind: 'old' }
  /** Could not be fetched, which may pass. */
  | { kind: 'unfetched' }
  /** Somebody else has it, or the server refuses. */
  | Loss
  /** This machine could not write down the job. */
  | { kind: 'unwritten'; reason: string }
  | { kind: 'outdated' }
  | { kind: 'stopped' }

export interface Job {
  ended: Promise<JobEnd>
  /** Ends the command if the commit is still claimed, since its branch has moved. */
  cancel(): void
}

/** Attempts to fetch a commit before `error` is reported. */
const FETCHES = 3
const SHORT = 10
/** Milliseconds before a server that is away is asked again. */
const AWAY = 1_000
const LONGEST_DESCRIPTION = operations.reportStatus.maxLength.description

/**
 * Starts a job:
 *
 *    fetch ──▶ old? ──▶ write down ──▶ claim ──▶ check out ──▶ command ──▶ result ──▶ remove
 *      │                                 │            │           │
 *      │ failed, less than three times   │ 409        │ failed    │ the claim is lost: its processes are
 *      ▼                                 ▼            ▼           ▼ ended, nothing is reported
 *    again later                       remove       error       remove
 *
 * A killed worker leaves what is written down, and the next one finishes it: it claims the commit under
 * the same run, and begins again.
 */
export function startJob(settings: JobSettings, task: JobTask): Job {
  const { repository, cache, tip, left } = task
  const { folder, times, stop } = settings
  const run = left?.run ?? randomUUID()
  const name = plain(`${repository.name} ${tip.branch} ${tip.sha.slice(0, SHORT)}`)
  const logName = join(repository.owner, repository.repo, `${tip.sha.slice(0, SHORT)}-${run}.log`)
  const claim = createClaim({ repository, sha: tip.sha, run, targetUrl: linkTo(settings, logName), times })
  const cancelled = new AbortController()
  const isOver = new AbortController()
  const kill = signalUntil(isOver.signal, settings.kill)
  /** Whether there is a command that has not been cancelled. */
  let isRunning = false

  async function execute(): Promise<JobEnd> {
    const fetched = left ? undefined : await bring()
    if (stop.aborted) return { kind: 'stopped' }
    const problem = fetched?.problem
    if (problem !== undefined && task.failures + 1 < FETCHES) {
      say(`${name}: cannot be fetched: ${problem}`)
      return { kind: 'unfetched' }
    }
    if (fetched && !task.isAskedFor && Date.now() - fetched.date > settings.maxAge) return { kind: 'old' }
    const record: JobRecord = {
      owner: repository.owner,
      repo: repository.repo,
      sha: tip.sha,
      branch: tip.branch,
      context: repository.context,
      run,
    }
    try {
      folder.write(record)
    } catch (error) {
      // One that a killed worker has left stays. If the removal fails too, the reason is the same.
      if (!left) folder.remove(run)
      return { kind: 'unwritten', reason: reasonOf(error) }
    }
    const taken = await claim.take(stop, kill)
    if (taken.kind !== 'held') {
      // What a killed worker left may be `pending`.
      if (!left || taken.kind !== 'away') remove()
      return taken.kind === 'away' ? { kind: 'stopped' } : taken
    }
    return finish(problem === undefined ? await perform(record).catch(failure) : failure(problem))
  }

  /** Returns the result of a command that could not be run, or was ended, unless the claim was lost. */
  function failure(error: unknown): Result | Loss {
    if (claim.loss) return claim.loss
    const reason = kill.aborted ? 'cancelled' : plain(reasonOf(error))
    return { state: 'error', description: Array.from(reason).slice(0, LONGEST_DESCRIPTION).join('') }
  }

  async function bring(): Promise<{ date: number; problem?: string }> {
    const others = [...repository.waiting.values()].map(({ sha, branches: [branch = ''] }) => ({
      sha,
      branch,
    }))
    try {
      return { date: await cache.bring(tip, others, stop) }
    } catch (error) {
      return { date: Number.POSITIVE_INFINITY, problem: reasonOf(error) }
    }
  }

  /** Checks the commit out and runs the command, unless the claim is lost. */
  async function perform(record: JobRecord): Promise<Result | Loss> {
    if (left) {
      const ended = AbortSignal.any([kill, claim.lost])
      for (let reading = await repository.read(ended); reading.kind !== 'read'; ) {
        await sleep(reading.kind === 'refused' ? times.refusal : AWAY, ended)
        reading = await repository.read(ended)
      }
      if (!repository.waiting.has(tip.sha)) return failure('the worker was killed')
      folder.removeCheckout(run)
      for (let failures = 0; ; await sleep(AWAY, ended)) {
        try {
          await cache.bring(tip, [])
          break
        } catch (error) {
          if (++failures === FETCHES || ended.aborted) throw error
          say(`${name}: cannot be fetched: ${reasonOf(error)}`)
        }
      }
    }
    const checkout = folder.checkoutOf(run)
    await cache.checkOut(tip, checkout)
    return claim.loss ?? runCommand(record, checkout)
  }

  async function runCommand(record: JobRecord, checkout: string): Promise<Result | Loss> {
    const started = { at: performance.now(), time: Date.now() }
    const ending = await followCommand(record, checkout)
    if (claim.loss) return claim.loss
    if (cancelled.signal.aborted) return failure(`cancelled: ${tip.branch} has moved on`)
    if (kill.aborted || !ending) return failure('cancelled')
    const files = filesWithin(checkout, settings.junit)
    return describeResult(ending, performance.now() - started.at, { files, since: started.time })
  }

  /** Returns how the command has ended; undefined if it was interrupted. */
  async function followCommand(record: JobRecord, checkout: string): Promise<Ending | undefined> {
    const {
      command: [file, args],
      env,
      logs,
      hasLabels,
    } = settings
    const log = logs && { file: join(logs.folder, logName), keep: logs.keep }
    const output = openOutput(hasLabels ? `${name} | ` : '', log)
    try {
      say(`${name}: started`)
      const own = { COMMIT_STATUS_SHA: tip.sha, COMMIT_STATUS_BRANCH: tip.branch, [MARK]: run }
      const repo = { COMMIT_STATUS_REPO: repository.name, COMMIT_STATUS_CONTEXT: repository.context }
      const command = startCommand({
        file,
        args,
        cwd: checkout,
        env: { ...env, CI: 'true', ...repo, ...own },
        run,
        output,
        grace: times.grace,
      })
      isRunning = true
      try {
        folder.write({ ...record, command: command.identity })
      } catch (error) {
        // The mark alone also tells the next worker what to end.
        say(`warning: ${name}: ${reasonOf(error)}`)
      }
      const interrupted = anyAborted(claim.lost, kill, cancelled.signal).then(command.end)
      return (await Promise.race([command.ended, interrupted])) ?? undefined
    } finally {
      isRunning = false
      output.close()
    }
  }

  async function finish(result: Result | Loss): Promise<JobEnd> {
    if ('kind' in result) return drop(result)
    const sent = await claim.finish(result, kill)
    const said = `${result.state}, ${result.description}`
    if (sent === 'unanswered') {
      say(`${name}: not reported, so the next worker of this folder runs it again: ${said}`)
      return { kind: 'stopped' }
    }
    if (sent !== 'stored') return drop(sent)
    remove()
    say(`${name}: ${said}`)
    return { kind: 'done', state: result.state }
  }

  function drop(loss: Loss): JobEnd {
    remove()
    say(`${name}: not reported: ${loss.reason}`)
    return loss
  }

  function remove(): void {
    const problem = folder.remove(run)
    if (problem) say(`warning: ${problem}`)
  }

  return {
    ended: execute().finally(() => isOver.abort()),
    cancel() {
      if (!isRunning) return
      isRunning = false
      // Another result of the commit also removes it from the list.
      void claim.renew().then((isHeld) => isHeld && cancelled.abort())
    },
  }
}

/** Returns the link to the log of a job. */
function linkTo({ logs }: JobSettings, logName: string): string | undefined {
  return logs?.link?.replaceAll('{log}', logName.split(sep).map(encodeURIComponent).join('/'))
}

/** Returns the files that are in a folder, also where a link leads. What is no file is left out. */
function filesWithin(folder: string, files: readonly string[]): string[] {
  return files.flatMap((file) => {
    const path = join(folder, file)
    try {
      const real = realpathSync(path)
      if (real.startsWith(realpathSync(folder) + sep) && statSync(real).isFile()) return [real]
      say(`warning: ${file} is left out: no file of the checkout`)
    } catch {
      say(`warning: ${file} is left out: missing`)
    }
    return []
  })
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
