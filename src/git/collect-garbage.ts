import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { limitConcurrency } from '../schedule/limit-concurrency.ts'
import { emptyWhenMissing, nullOnSystemError } from '../util/expected-errors.ts'
import { gitEnvironment } from './environment.ts'
import type { OpenedRepository } from './opened-repository.ts'
import { startGit, terminateGroup } from './run-git.ts'

/** Milliseconds for which a repository is left alone after a collection that did not succeed. */
const PAUSE = 60 * 60 * 1000
/**
 * git compares a file with ten others, in memory: 0.2 s for each MB. Where large files are pushed, it
 * would reach its limits of time or memory each time, and packs would never be combined.
 */
const SETTINGS = { 'pack.threads': '1', 'core.bigFileThreshold': '16m' }
/** Milliseconds by which the time of a new file may be behind the clock: it is of the last tick. */
const TICK = 20

/** More than this git collects by default: `gc.autoPackLimit`, and a 256th of `gc.auto`. */
const PACKS = 50
const LOOSE_IN_FOLDER = 26
/** The folder of loose objects of which git counts the files. */
const COUNTED_FOLDER = '17'
/** A configuration that may set other numbers. */
const OTHER_NUMBERS = /^[ \t]*\[[ \t]*(?:gc|include)/im

/**
 * Combines the packs of repositories when git considers it worthwhile (`git gc --auto`): one
 * repository after the other, beside the requests. git is asked only where it may do so.
 */
export class GarbageCollector {
  readonly #timeout: number
  readonly #inTurn = limitConcurrency(1)
  readonly #waiting = new Set<string>()
  readonly #pausedUntil = new Map<string, number>()
  readonly #closing = new AbortController()

  /** @param timeout milliseconds after which git is stopped */
  constructor(timeout: number) {
    this.#timeout = timeout
  }

  /** Resolves when the repository has had its turn. Never rejects. */
  async collect(repository: OpenedRepository): Promise<void> {
    const { path } = repository
    if (this.#waiting.has(path) || performance.now() < (this.#pausedUntil.get(path) ?? 0)) return
    this.#waiting.add(path)
    await this.#inTurn(async () => {
      this.#waiting.delete(path)
      if (!(await mayHaveGarbage(path)) || this.#closing.signal.aborted) return
      const stop = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#timeout)])
      // Without memory for another process, for example, git cannot be started.
      const succeeded = await runAuto(repository, stop, this.#timeout).catch(() => false)
      if (succeeded) this.#pausedUntil.delete(path)
      else this.#pausedUntil.set(path, performance.now() + PAUSE)
    })
  }

  /** Stops git, and resolves when it has ended. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#inTurn(async () => {})
  }
}

/** Returns whether git may find something to do by its own numbers, or by others in the configuration. */
async function mayHaveGarbage(path: string): Promise<boolean> {
  const namesIn = async (folder: string) =>
    new Set(await readdir(join(path, 'objects', folder)).catch(emptyWhenMissing))
  try {
    const names = await namesIn('pack')
    // A pack with such a file is not combined with others.
    const isPack = (name: string) => name.endsWith('.pack') && !names.has(name.replace(/pack$/, 'keep'))
    if ([...names].filter(isPack).length > PACKS) return true
    if ((await namesIn(COUNTED_FOLDER)).size > LOOSE_IN_FOLDER) return true
    return OTHER_NUMBERS.test(await readFile(join(path, 'config'), 'utf8'))
  } catch {
    // git says why.
    return true
  }
}

/** Returns whether git succeeded. */
async function runAuto(repository: OpenedRepository, signal: AbortSignal, timeout: number): Promise<boolean> {
  const since = Date.now() - TICK
  const { child, ended } = startGit(
    repository,
    ['gc', '--auto', '--quiet'],
    {
      env: gitEnvironment(SETTINGS),
      stdio: ['ignore', 'ignore', 'pipe'],
    },
    { kind: 'push', cpuTime: timeout },
  )
  let forget = () => {}
  const stop = () => {
    forget = terminateGroup(child.pid)
  }
  signal.addEventListener('abort', stop)
  const { code } = await ended
  signal.removeEventListener('abort', stop)
  forget()
  if (code !== 0)
    await removeUnfinished(join(repository.path, 'objects/pack'), since).catch(nullOnSystemError)
  return code === 0
}

/** Removes unfinished packs, which git leaves for weeks; pushes write theirs to other folders. */
async function removeUnfinished(folder: string, since: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = join(folder, name)
    if (/^(\.tmp-\d+-|tmp_)/.test(name) && (await stat(file)).mtimeMs >= since) await rm(file)
  }
}
