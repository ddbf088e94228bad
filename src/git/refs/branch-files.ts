import { join } from 'node:path'
import { BRANCHES } from '../../domain/ref-names.ts'
import { sortedIndex } from '../../util/lists.ts'
import { bytesOfTexts, shareOfMemory } from '../../util/memory.ts'
import { FileCache } from '../file-cache.ts'
import { type Disk, filesState } from '../file-state.ts'
import { hasReftable, listLoose } from './loose-refs.ts'
import { type NamedId, PackedRefs } from './packed-refs.ts'
import { type RefIds, readRefFiles } from './ref-ids.ts'

/** Refs with files of their own. With more, git is faster. */
const MAX_LOOSE = 200
/** Bytes of packed refs in memory. The least recently used lists are dropped. */
const CACHE_BYTES = shareOfMemory(48)

/**
 * Lists branches by git's files alone. `packed-refs` is read when git has written it again, which is
 * seldom, so that after a push little more than its branches is read.
 */
export class BranchFiles {
  readonly #disk: Disk
  readonly #packed = new FileCache<readonly NamedId[]>({
    maxBytes: CACHE_BYTES,
    bytesOf: (refs) => 120 * refs.length + bytesOfTexts(refs.map(([name]) => name)),
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
    if (await hasReftable(path)) return null
    const names = await looseNames(path)
    const loose = names && (await readRefFiles(path, names, signal))
    // After the loose refs: git removes those that it has packed.
    // As many more as files may hide.
    const packed = loose && (await this.#readPacked(path, count + MAX_LOOSE, signal))
    if (!packed) return null
    return merge(packed, names, loose).slice(0, count)
  }

  async #readPacked(path: string, count: number, signal: AbortSignal): Promise<readonly NamedId[] | null> {
    const known = await this.#packed.get(path)
    if (known) return known
    const state = await filesState([join(path, 'packed-refs')], this.#disk)
    await using packed = await PackedRefs.open(path)
    const refs = await packed.listBranches(count, signal)
    if (refs) this.#packed.set(path, refs, state)
    return refs
  }
}

/** Returns the names of the branches that have files of their own; null if git should list them. */
async function looseNames(path: string): Promise<Set<string> | null> {
  const names = new Set<string>()
  for await (const name of listLoose(path, BRANCHES)) {
    if (name === null || names.size === MAX_LOOSE) return null
    names.add(name)
  }
  return names
}

/**
 * Adds refs to a sorted list, or replaces them there. Long parts are copied, not compared.
 *
 * @param names those with files of their own. One whose file leads to no object is left out, as git does:
 *   where it was packed is older
 */
function merge(packed: readonly NamedId[], names: ReadonlySet<string>, loose: RefIds): NamedId[] {
  const parts: (readonly NamedId[])[] = []
  let from = 0
  for (const name of [...names].sort()) {
    const at = sortedIndex(packed, ([other]) => other < name)
    const id = loose.get(name)
    parts.push(packed.slice(from, at), id === undefined ? [] : [[name, id]])
    from = packed[at]?.[0] === name ? at + 1 : at
  }
  return [...parts, packed.slice(from)].flat()
}
