import { constants } from 'node:os'
import { defaultTimes } from '../../client.ts'
import { waitDefaults } from '../../wait-for-state.ts'
import { oneBranch, oneCommit, parse } from '../arguments.ts'
import type { SignalSource } from '../cancellation.ts'
import { parseDuration } from '../duration.ts'
import { exitCodes } from '../exit-codes.ts'
import { statusRows } from '../get.ts'
import { createGit } from '../git.ts'
import { createOutageNotice } from '../outage.ts'
import { findReportTarget, targetOptions, tokenOf, totalTimeoutOf } from '../target.ts'
import { hasColors, plain, print, printJson, say } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'
import { checkCheckout } from './checkout.ts'
import { landCommit, topicOf } from './landing.ts'
import { LandingEnd } from './landing-end.ts'
import { createRemote, removalOf } from './remote.ts'
import { createTickets, refsOfCommit, type TicketTimes, ticketFolder, topicFolder } from './tickets.ts'

const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** Milliseconds of a command that removes what the landing leaves on the server. */
const CLEANUP = 10_000

export const landOptions = {
  ...targetOptions,
  onto: { type: 'string' },
  branch: { type: 'string' },
  timeout: { type: 'string' },
  json: { type: 'boolean' },
} as const

/**
 * Returns the times of a landing. For two thirds of its time it waits for others; the rest is for
 * its own checks.
 */
function ticketTimes(timeout: number): TicketTimes {
  const heartbeat = 60_000
  return { heartbeat, grace: Math.max(timeout / 3, 3 * heartbeat), interval: 3 * waitDefaults.interval }
}

/**
 * Runs `commit-status land`: merges a commit into a branch of the server once the merge has passed
 * its checks.
 */
export async function land(
  args: string[],
  env: NodeJS.ProcessEnv,
  signals: SignalSource,
  timesOf = ticketTimes,
): Promise<number> {
  const { values, positionals } = parse({ args, allowPositionals: true, options: landOptions })
  const branch = oneBranch(values.onto, values.branch) ?? 'main'
  const timeout = parseDuration(values.timeout ?? '30m', '--timeout')
  const given = oneCommit(values.sha, positionals) ?? 'HEAD'
  if (given === branch)
    throw new UsageError(`${given} is what to land onto: to land HEAD, give --onto ${branch}`)
  const { client, owner, repo, sha } = await findReportTarget(
    { ...values, sha: given, 'target-url': '' },
    env,
  )
  const commit = sha.toLowerCase()
  const url = new URL(`/${owner}/${repo}.git`, values.url ?? env.COMMIT_STATUS_URL).href
  const token = tokenOf(env)
  const start = performance.now()
  const left = () => start + timeout - performance.now()

  const cancelled = new AbortController()
  const { signal } = cancelled
  let interruptedBy: NodeJS.Signals | undefined
  const cancel = (name: NodeJS.Signals) => {
    interruptedBy ??= name
    cancelled.abort(new LandingEnd('interrupted', `interrupted by ${name}`))
  }
  for (const name of SIGNALS) signals.on(name, cancel)
  const git = createGit(env, { url, token, signal, timeout: () => Math.max(left(), CLEANUP) })
  const readTimeout = totalTimeoutOf(env)
  const onOutage = createOutageNotice()
  const outageAfter = readTimeout ?? defaultTimes.totalTimeout
  const remote = createRemote(git, url, {
    retryFor: () => Math.max(left(), outageAfter),
    outageAfter,
    onOutage,
    signal,
  })
  const folders = [topicFolder(branch), ticketFolder(branch)]
  const readRefs = () => remote.list(`refs/heads/${branch}`, ...folders)
  const times = timesOf(timeout)
  const created = new Set<string>()
  const place = {
    client,
    owner,
    repo,
    url,
    commit,
    branch,
    git,
    remote,
    readRefs,
    times,
    left,
    readTimeout,
    signal,
    created,
  }
  const tickets = createTickets(place)
  let end: LandingEnd | undefined
  try {
    await checkCheckout(git, url, commit, branch)
    end = await landCommit({ ...place, tickets, onOutage })
  } catch (error) {
    if (!(error instanceof LandingEnd)) throw error
    end = error
  } finally {
    await cleanUp(end?.outcome).catch(({ message }: Error) => {
      const refs = new Set([...created].map((update) => update.slice(update.indexOf(':') + 1)))
      say(
        `may have left a ticket or a branch on the server: ${message}; to remove it: ${removalOf([...refs])}`,
      )
    })
    // Not before: another signal would end the removal.
    for (const name of SIGNALS) signals.off(name, cancel)
  }
  const { outcome, message, decisive, page } = end
  if (values.json) printJson({ outcome, message, commit, branch, decisive, page })
  else if (['unanswered', 'noRules', 'interrupted'].includes(outcome)) say(message)
  else {
    print(plain(message))
    for (const row of statusRows(decisive, hasColors(process.stdout, env))) print(row)
    if (page) print(plain(page))
  }
  return outcome === 'interrupted' ? 128 + constants.signals[interruptedBy ?? 'SIGINT'] : exitCodes[outcome]

  /**
   * Removes the ticket, and the topic unless its checks are still running. If another landing of this commit has
   * taken the ticket over, or has one of its own, they stay: that one waits for the checks.
   */
  async function cleanUp(outcome: LandingEnd['outcome'] = 'unanswered'): Promise<void> {
    if (created.size === 0) return
    const cleaner = createRemote(createGit(env, { url, token, timeout: () => CLEANUP }), url, {
      retryFor: () => CLEANUP,
      outageAfter,
      onOutage,
    })
    const topic = topicOf(place)
    const isRunning = outcome === 'pending' || outcome === 'missing'

    async function findOwn() {
      const refs = await cleaner.list(...folders)
      const isOwn = (ref: string) => created.has(`${refs.get(ref)}:${ref}`)
      const isShared = refsOfCommit(refs, commit, branch).some((ref) => ref !== topic && !isOwn(ref))
      const own = [...refs].filter(([ref]) => isOwn(ref) && !(ref === topic && (isShared || isRunning)))
      const isLeft = refs.has(topic) && !isShared && !own.some(([ref]) => ref === topic)
      return { own, isLeft }
    }

    const { own, isLeft } = await findOwn()
    const why = isRunning ? ' for its checks; to' : ', which another landing has pushed; if that has ended,'
    if (isLeft) say(`left ${topic}${why} remove it: ${removalOf([topic])}`)
    created.clear()
    for (const [ref, value] of own) created.add(`${value}:${ref}`)
    if (own.length === 0) return
    const leases = own.map(([ref, value]) => `--force-with-lease=${ref}:${value}`)
    const deletions = own.map(([ref]) => `:${ref}`)
    const reason = await cleaner.push(['--atomic', ...leases], deletions)
    // Another landing may have taken the ticket over meanwhile.
    if (reason !== undefined && (await findOwn()).own.length > 0) throw new Error(reason)
  }
}
