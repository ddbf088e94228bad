import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { resolve } from 'node:path'
import tls from 'node:tls'
import { anyAborted } from '../../sleep.ts'
import { SAME_SIGNAL, type SignalSource } from '../cancellation.ts'
import { exitCodes } from '../exit-codes.ts'
import { checkVersion, createGit } from '../git.ts'
import { openService, tokenOf } from '../target.ts'
import { say } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'
import { openCache, type RepositoryCache } from './cache.ts'
import { openFolder, type WorkFolder } from './folder.ts'
import { defaultFolder, readOptions } from './options.ts'
import { endProcesses } from './processes.ts'
import { createRepository, findObstacle } from './repository.ts'
import { createService } from './service.ts'
import { createWorker } from './worker.ts'

const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** Takes configuration from its environment; an older one would run hooks and filters. */
const OLDEST_GIT = '2.31'
/** Milliseconds. */
const GIT_TIMEOUT = 30_000
const defaultTimes = { claim: 300, renewal: 100_000, refusal: 60_000, grace: 5_000, stall: 90 }

/**
 * Runs `commit-status work`: runs a command on the newest commits of branches that have no result of a
 * check, and reports how it ends.
 */
export async function work(
  args: string[],
  env: NodeJS.ProcessEnv,
  source: SignalSource,
  times = defaultTimes,
): Promise<number> {
  const options = readOptions(args)
  if (process.platform !== 'linux') throw new UsageError('work needs Linux, whose /proc lists processes')
  const token = tokenOf(env)
  const target = await openService(options, env)
  await checkVersion(createGit(env, { timeout: () => GIT_TIMEOUT }), 'work', OLDEST_GIT)
  const folder = openFolder(resolve(options.folder ?? defaultFolder(target.baseUrl, options.context, env)))
  try {
    return await workIn(folder, { ...options, ...target, env, token, times, signals: watchStops(source) })
  } finally {
    folder.close()
  }
}

interface Work extends ReturnType<typeof readOptions>, Awaited<ReturnType<typeof openService>> {
  env: NodeJS.ProcessEnv
  token: string
  times: typeof defaultTimes
  signals: ReturnType<typeof watchStops>
}

async function workIn(folder: WorkFolder, work: Work): Promise<number> {
  const { names, context, match, baseUrl, open, env, token, times, signals, ...options } = work
  const { COMMIT_STATUS_TOKEN: _token, ...withoutToken } = env
  const service = createService(open, times.refusal)
  const gitEnv = { ...trustedByNode(folder, env), ...env }

  /** By their folders: only one may work in a folder. */
  const caches = new Map<string, RepositoryCache>()

  function openPlace(owner: string, repo: string, check: string) {
    const url = new URL(`/${owner}/${repo}.git`, baseUrl).href
    const path = folder.cacheOf(owner, repo)
    const options = { folder: path, url, token, env: gitEnv, signal: signals.kill, stall: times.stall }
    const cache = caches.get(path) ?? openCache(options)
    caches.set(path, cache)
    return { repository: createRepository({ service, owner, repo, context: check, match }), cache }
  }

  const watched = names.map(([owner, repo]) => openPlace(owner, repo, context))
  for (const { repository } of watched) {
    const obstacle = await Promise.race([findObstacle(repository, service), anyAborted(signals.stop)])
    if (obstacle === undefined) continue
    say(`${repository.name}: ${obstacle}`)
    return exitCodes.unanswered
  }

  const records = folder.leftJobs()
  for (const { run, command } of records) await endProcesses({ run, leader: command }, times.grace)
  const left = records.map((record) => {
    const known = watched.find(
      ({ repository: { owner, repo } }) =>
        owner === record.owner && repo === record.repo && context === record.context,
    )
    return { record, ...(known ?? openPlace(record.owner, record.repo, record.context)) }
  })

  let problem: string | undefined
  const worker = createWorker({
    ...options,
    settings: {
      ...options,
      ...signals,
      env: { ...withoutToken, COMMIT_STATUS_URL: baseUrl },
      folder,
      times,
      hasLabels: options.jobs > 1 || watched.length > 1,
    },
    watched,
    left,
    abandon(reason) {
      problem = reason
      signals.end()
    },
  })
  const exitCode = options.once ? await worker.workOnce() : await worker.watch().then(() => exitCodes.success)
  if (problem !== undefined) {
    say(problem)
    return exitCodes.unanswered
  }
  const last = signals.last()
  if (last) return 128 + constants.signals[last]
  return exitCode
}

/**
 * Returns the variable with which git trusts what Node trusts if that is more than the usual: the file
 * that it names takes the place of the CAs of git on some systems, so it also holds those of Node.
 */
function trustedByNode(
  folder: WorkFolder,
  { NODE_EXTRA_CA_CERTS: file, GIT_SSL_CAINFO: own }: NodeJS.ProcessEnv,
): NodeJS.ProcessEnv {
  if (!file || own !== undefined) return {}
  const warn = (what: string, error: unknown) =>
    say(`warning: git ${what}: ${error instanceof Error ? error.message : error}`)
  let extra: string
  try {
    extra = readFileSync(file, 'utf8')
  } catch (error) {
    warn('does not use NODE_EXTRA_CA_CERTS', error)
    return {}
  }
  try {
    // Node 22.15 and later lists those of the system. With --use-openssl-ca, its type `default` is the extra file alone.
    const trusted = [...tls.rootCertificates, ...(tls.getCACertificates?.('system') ?? []), extra]
    return { GIT_SSL_CAINFO: folder.writeCertificates(trusted) }
  } catch (error) {
    warn('trusts NODE_EXTRA_CA_CERTS alone', error)
    return { GIT_SSL_CAINFO: resolve(file) }
  }
}

/** The first signal stops the worker once its commands have ended, a later one ends them. */
function watchStops(source: SignalSource) {
  const [stop, kill] = [new AbortController(), new AbortController()]
  let firstAt: number | undefined
  let last: NodeJS.Signals | undefined
  for (const signal of SIGNALS) {
    source.on(signal, () => {
      if (firstAt === undefined) {
        say(`${signal}: waits for what is running; another signal ends it`)
        firstAt = performance.now()
        stop.abort()
      } else if (performance.now() - firstAt >= SAME_SIGNAL) {
        last = signal
        kill.abort()
      }
    })
  }
  return { stop: stop.signal, kill: kill.signal, end: () => stop.abort(), last: () => last }
}
