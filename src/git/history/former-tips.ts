import { LRUCache } from 'lru-cache'
import type { FairQueue, QueueClient } from '../../schedule/fair-queue.ts'
import { SharedRuns } from '../../schedule/shared-runs.ts'
import { insteadOf } from '../../util/expected-errors.ts'
import { shareOfMemory } from '../../util/memory.ts'
import { GitFailed } from '../errors.ts'
import type { RepositoryFiles } from '../opened-repository.ts'
import { readGit } from '../run-git.ts'
import { runInSlot } from './cached-reads.ts'
import { CommitGraph } from './commit-graph.ts'
import type { FirstParentList, FirstParents, Wanted } from './first-parents.ts'

/*
 * The commits that a branch was at, from its newest one on. `tips` is where pushes left it, the
 * newest first. Those that a forced push has removed are among them, and are skipped:
 *
 *   tips[0] ──▶ first parent ──▶ …        tips[2] ──▶ … ──▶ tips[5] ──▶ first parents, as far as
 *   │                            │        ▲                 ▲           they go
 *   └ stretch: as long as they ──┘        │                 │
 *     contain the next tip, which is the newest one that the commit contains
 *
 * Where the branch was at a tip more than once, what follows is what was before the first time.
 *
 * So a stretch has the commits that a push added one after the other. A merge in which the branch is
 * not the first parent leads to the branch nevertheless, and not into what was merged. Only where such
 * a merge brings more commits than are read at a time, its first parents follow.
 */

/** Tips that are looked at for one question. */
const MAX_TIPS = 300
/** Among how many first parents merges are followed, for each commit that is wanted. */
const DEPTH = 2
/** Commits that are searched for the place where a list begins. */
const MAX_SEARCHED = 20_000
/**
 * Bytes of paths in memory; and of each git process, commits, bytes and milliseconds. A commit may name
 * any number of parents; with two each, that many commits take less.
 */
const LIMITS = { maxBytes: shareOfMemory(16), commits: 20_000, bytes: 4 * 1024 * 1024, timeout: 3_000 }

/** Whose tips are followed, and for whom. */
interface Reading {
  repository: RepositoryFiles
  tips: readonly string[]
  client: QueueClient
}

/** Where first parents go on. */
interface Rest {
  root: string
  after: string | undefined
}

/** Stretches that follow one another. */
interface Path {
  /** Their commits, without the last tip. */
  ids: readonly string[]
  /** The tips, and where they are among `ids`; the last one comes after them, or is cut. */
  tips: readonly { offset: number; index: number }[]
  /** Whether `ids` ends before the last stretch does. */
  isCut: boolean
  /** What follows `ids`: the last tip, or what was cut off. */
  rest: Rest
}

/** The part of a path that is found from one tip. */
interface Piece extends Path {
  /** Whether more tips may be found from the last one. */
  goesOn: boolean
}

/** Lists the commits that branches were at, by where pushes left them. */
export class FormerTips {
  readonly #queue: FairQueue
  readonly #firstParents: FirstParents
  readonly #limits: Omit<typeof LIMITS, 'maxBytes'>
  readonly #paths: LRUCache<string, Path>
  readonly #runs = new SharedRuns<Path>()

  constructor(queue: FairQueue, firstParents: FirstParents, limits: Partial<typeof LIMITS> = {}) {
    const { maxBytes, ...ofGit } = { ...LIMITS, ...limits }
    this.#queue = queue
    this.#firstParents = firstParents
    this.#limits = ofGit
    this.#paths = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ ids, tips }, key) => 500 + key.length + 60 * (ids.length + tips.length),
    })
  }

  /**
   * Lists the commits that a branch was at.
   *
   * @param tips full ids in lower case, at least one: see `createBranchMoves`
   * @returns null if the branch is not known to have been at the commit after which the list begins
   * @throws RepositoryUnavailable, QueueFull, the signal's reason
   */
  async list(
    repository: RepositoryFiles,
    tips: readonly string[],
    { after, count }: Wanted,
    client: QueueClient,
  ): Promise<FirstParentList | null> {
    const [tip = ''] = tips
    if (tips.length === 1) return this.#firstParents.list(repository, tip, { after, count }, client)
    const reading = { repository, tips, client }
    if (after === undefined) return this.#listFrom(reading, 0, undefined, count)
    return after.length === tip.length ? this.#listAfter(reading, after, count) : null
  }

  /** Lists what follows a commit, from the newest tip on whose stretch has it. */
  async #listAfter(reading: Reading, after: string, count: number): Promise<FirstParentList | null> {
    const { repository, tips, client } = reading
    const lowest: string[] = []
    for (let [start, wanted] = [0, count]; ; ) {
      const { ids, tips: found, isCut, rest } = await this.#path(reading, start, wanted)
      const at = ids.indexOf(after)
      if (at !== -1) {
        const tip = found.findLast(({ offset }) => offset <= at)
        return this.#listFrom(reading, tip?.index ?? start, after, count)
      }
      const last = found.at(-1)?.index ?? start
      if (last === start && isCut && wanted < MAX_SEARCHED) {
        wanted = Math.min(4 * wanted, MAX_SEARCHED)
        continue
      }
      if (last === start || !isCut) lowest.unshift(isCut ? rest.root : (tips[last] ?? ''))
      if (last === start) break
      start = last
      wanted = count
    }
    // Below the last tip, also of those that a question looks at, the list goes on by first parents.
    for (const tip of lowest) {
      const list = await this.#firstParents.list(repository, tip, { after, count }, client)
      if (list) return list
    }
    // A forced push may have removed it, and git may have collected it since.
    const index = tips.indexOf(after)
    if (index === -1 || !(await this.#isInGit(reading, after))) return null
    return this.#listFrom(reading, index, after, count)
  }

  #isInGit({ repository, client }: Reading, id: string): Promise<boolean> {
    return runInSlot(this.#queue, repository, client, (opened) =>
      readGit(opened, ['cat-file', '-e', id], { signal: client.signal })
        .then(() => true)
        .catch(insteadOf(GitFailed, false)),
    )
  }

  /** Lists commits from a tip on. @param after a commit of its stretch */
  async #listFrom(
    reading: Reading,
    start: number,
    after: string | undefined,
    count: number,
  ): Promise<FirstParentList> {
    for (let wanted = count; ; wanted = Math.min(4 * wanted, MAX_SEARCHED)) {
      const { ids, isCut, rest } = await this.#path(reading, start, wanted)
      const skipped = after === undefined ? 0 : ids.indexOf(after) + 1
      const listed = ids.slice(skipped, skipped + count)
      if (ids.length - skipped > count) return { ids: listed, more: true }
      if (isCut && wanted < MAX_SEARCHED) continue

      const isBelow = after !== undefined && skipped === 0
      const list = await this.#firstParents.list(
        reading.repository,
        rest.root,
        { after: isBelow ? after : rest.after, count: count - listed.length },
        reading.client,
      )
      return { ids: [...listed, ...(list?.ids ?? [])], more: list?.more ?? false }
    }
  }

  /**
   * Returns the path from a tip on, along the next `MAX_TIPS`.
   *
   * @param wanted commits after which it may be cut: it has one more then
   */
  async #path(reading: Reading, start: number, wanted: number): Promise<Path> {
    const { repository, client } = reading
    const tips = reading.tips.slice(start, start + 1 + MAX_TIPS)
    const prefix = await this.#firstParents.prefixOf(repository)
    const key = [prefix, wanted, ...tips].join(' ')
    const find = async (waiting: QueueClient) => {
      // What this run has waited for may have found it.
      const path =
        this.#paths.get(key) ?? (await this.#findPath({ repository, tips, client: waiting }, wanted))
      this.#paths.set(key, path)
      return path
    }
    const path = this.#paths.get(key) ?? (await this.#runs.join(key, find, client))
    return { ...path, tips: path.tips.map(({ offset, index }) => ({ offset, index: start + index })) }
  }

  async #findPath(reading: Reading, wanted: number): Promise<Path> {
    const ids: string[] = []
    const tips = [{ offset: 0, index: 0 }]
    for (let from = 0; ; ) {
      const { goesOn, ...piece } = await this.#findPiece(reading, from, wanted - ids.length)
      tips.push(...piece.tips.map(({ offset, index }) => ({ offset: ids.length + offset, index })))
      ids.push(...piece.ids)
      const last = tips.at(-1)?.index ?? 0
      if (!goesOn || last === from) return { ...piece, ids, tips }
      from = last
    }
  }

  /** Finds tips as far as the first parents of one of them lead, and what was merged into these. */
  async #findPiece({ repository, tips, client }: Reading, from: number, wanted: number): Promise<Piece> {
    const root = tips[from] ?? ''
    const count = DEPTH * wanted + 1
    const list = await this.#firstParents.list(repository, root, { after: undefined, count }, client)
    const chain = list?.ids ?? []
    const depths = new Map(chain.map((id, depth) => [id, depth]))
    const ids: string[] = []
    const found: { offset: number; index: number }[] = []
    // A forced push back to a tip brings back what was before it the first time.
    const firstTimes = new Map(tips.map((id, index) => [id, index]))
    const indexOf = (id: string) => firstTimes.get(id) ?? -1
    let graph: CommitGraph | undefined
    let isMissing = false
    // A tip that is none of the first parents has no depth.
    let [tip, depth]: [string, number | undefined] = [root, 0]

    for (let index = indexOf(root) + 1; index < tips.length; index++) {
      let next = tips[index] ?? ''
      let nextDepth = depths.get(next)
      let stretch: readonly string[] | null
      if (depth !== undefined && nextDepth !== undefined) stretch = chain.slice(depth, nextDepth)
      else {
        graph ??= await this.#readGraph(repository, root, chain.at(-1) ?? root, client)
        stretch = graph.firstParentsTo(tip, next, wanted + 1)
        // A forced push has removed it, or it is farther away.
        isMissing ||= !graph.has(next)
      }
      if (!stretch?.length) continue
      // A forced push may have gone back past an older tip, to which a later push led again.
      const passed = stretch.findIndex((id) => indexOf(id) > index)
      if (passed !== -1) {
        next = stretch[passed] ?? ''
        nextDepth = depths.get(next)
        stretch = stretch.slice(0, passed)
      }
      ids.push(...stretch)
      const cut = ids[wanted]
      if (cut !== undefined)
        return {
          ids: ids.slice(0, wanted + 1),
          tips: found,
          isCut: true,
          rest: { root: cut, after: cut },
          goesOn: false,
        }
      index = indexOf(next)
      found.push({ offset: ids.length, index })
      ;[tip, depth] = [next, nextDepth]
    }
    // What follows is cached by the first commit of a list.
    const rest = depth === undefined ? { root: tip, after: undefined } : { root, after: chain[depth - 1] }
    // The first parents of one of these contain whatever is farther away than all that was read.
    const goesOn = isMissing && (depth === undefined || graph?.isCut === true)
    return { ids, tips: found, isCut: false, rest, goesOn }
  }

  #readGraph(
    repository: RepositoryFiles,
    first: string,
    last: string,
    { signal = new AbortController().signal, ...client }: QueueClient,
  ): Promise<CommitGraph> {
    return runInSlot(this.#queue, repository, { ...client, signal }, (opened) =>
      CommitGraph.read(opened, first, last, this.#limits, signal),
    )
  }
}
