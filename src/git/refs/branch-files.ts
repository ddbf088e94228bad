import { createReadStream } from 'node:fs'
import { join, relative } from 'node:path'
import { LRUCache } from 'lru-cache'
import { BRANCHES } from '../../domain/ref-names.ts'
import { isMissing } from '../../errors.ts'
import { sortedIndex } from '../../util/lists.ts'
import { bytesOfTexts, MEGABYTE } from '../../util/memory.ts'
import { walk } from '../../util/walk.ts'
import { type Disk, type FilesState, filesState, isCurrent, statIfExists } from '../file-state.ts'
import { SORTED_HEADER } from './packed-refs.ts'
import { type RefIds, readRefFiles } from './ref-ids.ts'

/** Refs with files of their own. With more, git is faster. */
const MAX_LOOSE = 200
/** Bytes of packed refs in memory. The least recently used lists are dropped. */
const CACHE_BYTES = 48 * MEGABYTE
const PACKED = /^([0-9a-f]{40}(?:[0-9a-f]{24})?) (refs\/heads\/.+)$/
/** Comes after all branches. */
const END = 'refs/heads0'

/** The full name of a ref, decoded as Latin-1, and its object id. */
export type NamedId = readonly [name: string, id: string]

/**
 * Lists branches by git's files alone. `packed-refs` is read when git has written it again, which is
 * seldom, so that after a push little more than its branches is read.
 */
export class BranchFiles {
  readonly #disk: Disk
  readonly #packed = new LRUCache<string, { state: FilesState; refs: readonly NamedId[] }>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ refs }) => 1_000 + 120 * refs.length + bytesOfTexts(refs.map(([name]) => name)),
  })

  constructor(disk: Disk) {
    this.#disk = disk
  }

  /**
   * Returns branches as `git for-each-ref` lists them: ordered by the bytes of their names.
   *
   * @param count maximum number of branches
   * @returns null if git should list them
   * @throws the system's error; the signal's reason
   */
  async list(path: string, count: number, signal: AbortSignal): Promise<readonly NamedId[] | null> {
    if ((await statIfExists(join(path, 'reftable'))) !== null) return null
    const names = await looseNames(path)
    const loose = names && (await readRefFiles(path, names, signal))
    // After the loose refs: git removes those that it has packed.
    const packed = loose && (await this.#readPacked(path, count, signal))
    if (!packed) return null
    return merge(packed, loose).slice(0, count)
  }

  async #readPacked(path: string, count: number, signal: AbortSignal): Promise<readonly NamedId[] | null> {
    const file = join(path, 'packed-refs')
    const known = this.#packed.get(path)
    if (known && (await isCurrent(known.state))) return known.refs
    const state = await filesState([file], this.#disk)
    const refs = await readPacked(file, count, signal)
    if (refs) this.#packed.set(path, { state, refs })
    return refs
  }
}

/** Returns the names of the branches that have files of their own; null if git should list them. */
async function looseNames(path: string): Promise<Set<string> | null> {
  const names = new Set<string>()
  for await (const { path: file, isFolder } of walk(join(path, BRANCHES))) {
    const name = relative(path, file)
    if (isFolder || name.endsWith('.lock')) continue
    // The name of such a file may not be UTF-8.
    if (names.size === MAX_LOOSE || name.includes('\ufffd')) return null
    names.add(Buffer.from(name).toString('latin1'))
  }
  return names
}

/** Adds refs to a sorted list, or replaces them there. Long parts are copied, not compared. */
function merge(packed: readonly NamedId[], loose: RefIds): NamedId[] {
  const parts: (readonly NamedId[])[] = []
  let from = 0
  for (const ref of [...loose].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const at = sortedIndex(packed, ([name]) => name < ref[0])
    parts.push(packed.slice(from, at), [ref])
    from = packed[at]?.[0] === ref[0] ? at + 1 : at
  }
  return [...parts, packed.slice(from)].flat()
}

/** Returns the first branches of `packed-refs`; null if it is not sorted. */
async function readPacked(file: string, count: number, signal: AbortSignal): Promise<NamedId[] | null> {
  const refs: NamedId[] = []
  let [rest, isFirst] = ['', true]
  try {
    const chunks: AsyncIterable<string> = createReadStream(file, { encoding: 'latin1', signal })
    for await (const chunk of chunks) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (isFirst && !SORTED_HEADER.test(line)) return null
        isFirst = false
        const [, id, name] = PACKED.exec(line) ?? []
        if (id !== undefined && name !== undefined) refs.push([name, id])
        if (refs.length === count || line.slice(line.indexOf(' ') + 1) > END) return refs
      }
    }
  } catch (error) {
    signal.throwIfAborted()
    if (!isMissing(error)) throw error
  }
  return refs
}
