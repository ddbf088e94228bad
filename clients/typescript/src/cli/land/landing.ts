import type { Client, CommitVerdict } from '../../index.ts'
import { poll, type Unanswered } from '../../poll.ts'
import { sleep } from '../../sleep.ts'
import { unmetChecks } from '../describe-verdict.ts'
import type { OutageNotice } from '../outage.ts'
import { say } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'
import { noRuleMatches } from '../wait-for-branch.ts'
import { waitForVerdict } from '../wait-for-verdict.ts'
import { isOutage } from '../work/repository.ts'
import { failureOfBranch } from './failure-of-branch.ts'
import { LandingEnd } from './landing-end.ts'
import { isAncestor, mergeOf } from './merge.ts'
import type { Refs } from './remote.ts'
import { digitsOf, refsOfCommit, type TicketOptions, type Tickets, topicFolder } from './tickets.ts'

/** Maximum number of lines of a hook that are shown. */
const MOST_LINES = 50

export interface Landing extends TicketOptions {
  client: Client
  owner: string
  repo: string
  /** The address of the repository for git. */
  url: string
  tickets: Tickets
  readTimeout: number | undefined
  onOutage: OutageNotice
}

interface ReadVerdict {
  required: CommitVerdict['required']
  /** The server's time when it answered. */
  time: Date
}

/** Reads what a branch requires of a commit. */
function readVerdict(landing: Landing, sha: string, branch: string): Promise<ReadVerdict | Unanswered> {
  const { client, owner, repo } = landing
  return poll(
    (call) => client.getVerdict({ owner, repo, sha, branch }, call),
    pollOptions(landing),
    ({ body: { required }, time }): { end: ReadVerdict } => ({ end: { required, time } }),
  )
}

/** @throws LandingEnd if there is no verdict */
function orEnd(result: ReadVerdict | Unanswered): ReadVerdict {
  if ('required' in result) return result
  throw new LandingEnd('unanswered', `cannot read the verdict: ${result.answer.body.error}`)
}

function pollOptions({ left, times, readTimeout, onOutage, signal }: Landing) {
  return { timeout: Math.max(0, left()), interval: times.interval / 3, readTimeout, onOutage, signal }
}

/**
 * Merges a commit into a branch of the server once the merge has passed its checks, and again if
 * the branch has moved meanwhile. Holds no lock: the last push succeeds only if the branch still
 * has the tip that was merged.
 *
 * @throws LandingEnd for every other end
 */
export async function landCommit(landing: Landing): Promise<LandingEnd> {
  const { commit, branch, git, remote, tickets, readRefs } = landing
  const target = `refs/heads/${branch}`
  let refs = await readRefs()
  for (;;) {
    const tip = refs.get(target)
    if (!tip) throw new UsageError(`--onto: the server has no branch ${branch}`)
    await remote.fetch(target, tip)
    if (await isAncestor(git, commit, tip))
      return new LandingEnd('success', `${commit} is on ${branch} already`)
    const { required, time } = orEnd(await readVerdict(landing, tip, branch))
    if (required.length === 0) throw new LandingEnd('noRules', noRuleMatches(branch))
    const merge = await mergeOf(git, commit, tip, branch)
    refs = await tickets.turn(refs, time)
    if (refs.get(target) !== tip) continue
    const hasPassed = await passChecks(landing, merge, tip, refs)
    refs = await readRefs()
    if (hasPassed && refs.get(target) === tip) {
      const own = refsOfCommit(refs, commit, branch)
      const options = ['--atomic', `--force-with-lease=${target}:${tip}`]
      const reason = await remote.push(options, [`${merge}:${target}`, ...own.map((ref) => `:${ref}`)])
      const name = merge === commit ? '' : ` as ${merge}`
      if (reason === undefined) return new LandingEnd('success', `landed ${commit} on ${branch}${name}`)
      const before = refs
      refs = await readRefs()
      if ([target, ...own].every((ref) => refs.get(ref) === before.get(ref)))
        throw new LandingEnd('unanswered', `the server refused to move ${branch} to ${merge}: ${reason}`)
    }
    say(`${branch} has moved; merging again`)
  }
}

/**
 * Pushes a commit to where CI builds it, unless that has been done, and waits for its checks.
 * Returns false as soon as the branch has another tip, for which they would be pointless.
 *
 * @throws LandingEnd if they do not pass
 */
async function passChecks(landing: Landing, merge: string, tip: string, refs: Refs): Promise<boolean> {
  const over = new AbortController()
  let isBuilt = false
  const watching = watchBranch(landing, merge, tip, over, () => isBuilt)
  try {
    await build(landing, merge, tip, refs)
    isBuilt = true
    await waitForChecks(landing, merge, tip, over.signal)
    return true
  } catch (error) {
    if (error === over.signal.reason) return false
    throw error
  } finally {
    over.abort()
    await watching
  }
}

/**
 * Renews the ticket until `over` is aborted, or aborts it once the branch has moved. Pushes the topic again if
 * somebody has removed it too early, such as another landing of this commit that was interrupted.
 */
async function watchBranch(
  landing: Landing,
  merge: string,
  tip: string,
  over: AbortController,
  isBuilt: () => boolean,
): Promise<void> {
  const { branch, tickets, readRefs, times, signal } = landing
  for (;;) {
    await sleep(times.heartbeat, over.signal, signal)
    if (over.signal.aborted || signal.aborted) return
    try {
      // A failure here, such as a full disk, does not keep it from reading.
      await tickets.renew().catch(() => {})
      const refs = await readRefs()
      if (refs.get(`refs/heads/${branch}`) !== tip) over.abort()
      else {
        await tickets.sweep(refs)
        const isMissing = isBuilt() && !refs.has(topicOf(landing))
        if (isMissing && (await isToBeBuilt(landing, merge))) await pushTopic(landing, merge)
      }
    } catch {
      // After a failure, the next one may succeed.
    }
  }
}

async function build(landing: Landing, merge: string, tip: string, refs: Refs): Promise<void> {
  const topic = topicOf(landing)
  if (refs.get(topic) === merge) {
    await askAgain(landing, merge)
    return
  }
  const isNew = await isToBeBuilt(landing, merge)
  if (!isNew && (await findCutShort(landing, merge)).length === 0) return
  const words = await landing.remote.verify([`${merge}:${topic}`])
  if (words !== undefined) {
    for (const line of words.split('\n').slice(-MOST_LINES)) say(`pre-push: ${line}`)
    throw new LandingEnd('failure', `the pre-push hook of this checkout refused ${merge}`)
  }
  // The hook may have taken minutes.
  const hasAsked = await askAgain(landing, merge)
  if (!isNew && !hasAsked) return
  const reason = await pushTopic(landing, merge)
  if (reason !== undefined) throw new LandingEnd('unanswered', await explainTopic(landing, tip, reason))
}

/**
 * Returns whether CI may not know of a commit: nothing has been reported for a required check, or one is pending
 * and no branch is at the commit. Somebody may have asked for another run, which workers find by branches.
 */
async function isToBeBuilt(landing: Landing, merge: string): Promise<boolean> {
  const verdict = await readVerdict(landing, merge, landing.branch)
  if (!('required' in verdict)) return true
  const states = verdict.required.map(({ state }) => state)
  if (states.includes(null)) return true
  if (states.includes('failure') || !states.includes('pending')) return false
  const branches = await landing.remote.list('refs/heads/')
  return ![...branches.values()].includes(merge)
}

/**
 * Returns the required contexts that are `error`, and so have shown nothing: a worker with `--cancel` reports it when
 * an interrupted landing has removed the branch. None if another one has failed.
 */
async function findCutShort(landing: Landing, merge: string): Promise<string[]> {
  const { client, owner, repo, branch } = landing
  const verdict = await readVerdict(landing, merge, branch)
  if (!('required' in verdict) || !verdict.required.some(({ state }) => state === 'failure')) return []
  const known = await poll(
    (call) => client.listStatuses({ owner, repo, sha: merge }, call),
    pollOptions(landing),
    ({ body: { statuses } }) => ({ end: statuses }),
  )
  const contexts = new Set(verdict.required.flatMap((pattern) => pattern.contexts))
  const statuses = 'outcome' in known ? [] : known
  const counted = statuses.filter(({ context }) => contexts.has(context))
  if (counted.some(({ state }) => state === 'failure')) return []
  return counted.filter(({ state }) => state === 'error').map(({ context }) => context)
}

/**
 * Asks for other runs of what was cut short, before CI sees the commit. After an outage it looks again, since
 * the server may have taken the request, or a result. Returns whether it may have taken one.
 */
async function askAgain(landing: Landing, merge: string): Promise<boolean> {
  const { client, owner, repo, signal, left, times, readTimeout } = landing
  const description = 'waiting for another run, for a landing'
  const settled = new Set<string>()
  for (let hasAsked = false; ; ) {
    const [context] = (await findCutShort(landing, merge)).filter((each) => !settled.has(each))
    if (context === undefined) return hasAsked
    const answer = await client.reportStatus(
      { owner, repo, sha: merge, body: { state: 'pending', context, description } },
      { signal, totalTimeout: readTimeout },
    )
    const isAway = answer.status !== 201 && isOutage(answer)
    hasAsked ||= answer.status === 201 || isAway
    if (isAway && left() > 0) {
      await sleep(times.interval, signal)
      continue
    }
    settled.add(context)
    if (answer.status === 201) say(`asked for another run of ${context}`)
    else say(`cannot ask for another run of ${context}: ${answer.body.error}`)
  }
}

/** Pushes a commit to where CI builds it. Returns why the server refused, or undefined. */
async function pushTopic(landing: Landing, merge: string): Promise<string | undefined> {
  const topic = topicOf(landing)
  const update = `${merge}:${topic}`
  landing.created.add(update)
  const reason = await landing.remote.push(['--force'], [update])
  if (reason === undefined) say(`pushed ${merge} to ${topic.replace('refs/heads/', '')}`)
  return reason
}

async function waitForChecks(landing: Landing, merge: string, tip: string, over: AbortSignal): Promise<void> {
  const { client, owner, repo, url, branch, created } = landing
  const options = { ...pollOptions(landing), signal: AbortSignal.any([landing.signal, over]) }
  const result = await waitForVerdict(client, { owner, repo, sha: merge, branch }, options)
  if (result.outcome === 'unanswered')
    throw new LandingEnd('unanswered', `cannot read the verdict: ${result.answer.body.error}`)
  if (result.outcome === 'noRules') throw new LandingEnd('noRules', noRuleMatches(branch))
  if (result.outcome === 'success') return
  const { outcome, verdict, decisive } = result
  // Nobody waits for its checks any longer, whoever pushed it.
  if (outcome === 'failure') created.add(`${merge}:${topicOf(landing)}`)
  const unmet = `${unmetChecks(verdict.required).join(', ')} on ${merge}`
  const sentence =
    outcome === 'failure'
      ? [unmet, await failureOfBranch(landing, tip, decisive)].filter(Boolean).join('; ')
      : `timed out: ${unmet}; run it again to go on waiting`
  throw new LandingEnd(outcome, sentence, decisive, `${url.replace(/\.git$/, '')}/commits/${merge}`)
}

/** Returns the ref that CI builds. It is the same when the landing runs again. */
export function topicOf({ branch, commit }: Pick<Landing, 'branch' | 'commit'>): string {
  return topicFolder(branch) + digitsOf(commit)
}

/**
 * Says why the topic was refused: a rule holds for it too, a branch has a name that it would need
 * as a folder, or something else.
 */
async function explainTopic(landing: Landing, tip: string, reason: string): Promise<string> {
  const { remote, branch } = landing
  const topic = topicOf(landing)
  const name = topic.replace('refs/heads/', '')
  const { required } = orEnd(await readVerdict(landing, tip, name))
  if (required.length > 0)
    return `a rule matches ${name} too, so nothing can be pushed there to be checked; limit the rule to ${branch} (${reason})`
  const folders = name
    .split('/')
    .map((_, index, words) => `refs/heads/${words.slice(0, index + 1).join('/')}`)
  const refs = [...(await remote.list(...folders.slice(0, -1), `${topic}/`)).keys()]
  const [inTheWay = ''] = refs.map((ref) => ref.replace('refs/heads/', ''))
  return inTheWay
    ? `the branch ${inTheWay} is in the way of ${name}: rename or delete it (${reason})`
    : `cannot push ${name}: ${reason}`
}
