import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../../util/expected-errors.ts'

/** Bytes that are searched as text. */
const WINDOW = 64 * 1024
/** Longer than any line, and than two of them. */
const LINES = 16 * 1024
/** The first line of a list that is sorted by the bytes of names. */
const SORTED_HEADER = /^# pack-refs with:.* sorted(?: |$)/
const BRANCH = /^([0-9a-f]{40}(?:[0-9a-f]{24})?) (refs\/heads\/.+)$/
/** Comes after all branches. */
const END = 'refs/heads0'

/** The full name of a ref, decoded as Latin-1, and its object id. */
export type NamedId = readonly [name: string, id: string]

/**
 * Reads `packed-refs` (gitrepository-layout(5)): of a large one only few parts to find a ref, as git
 * sorts the names by their bytes. See `loose-refs.ts` for what that buys. A line is "ID NAME"; one that
 * begins with `^` belongs to the line before it.
 */
export class PackedRefs {
  readonly #file: FileHandle | null
  readonly #size: number
  readonly #isSorted: boolean
  /** The part that was searched last. Refs that are looked up in order are close to each other. */
  #window = ''

  private constructor(file: FileHandle | null, size: number, isSorted: boolean) {
    this.#file = file
    this.#size = size
    this.#isSorted = isSorted
  }

  /** @throws the system's error */
  static async open(path: string): Promise<PackedRefs> {
    const file = await open(join(path, 'packed-refs')).catch((error: unknown) => {
      if (isMissing(error)) return null
      throw error
    })
    if (!file) return new PackedRefs(null, 0, true)
    try {
      const { size } = await file.stat()
      const [header = ''] = (await readAt(file, 0, LINES)).split('\n', 1)
      return new PackedRefs(file, size, SORTED_HEADER.test(header))
    } catch (error) {
      await file.close()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.close()
  }

  /**
   * Returns the object id of a ref; undefined if it is not packed, null if the file is not sorted.
   *
   * @param name decoded as Latin-1
   * @throws the system's error
   */
  async find(name: string): Promise<string | null | undefined> {
    if (!this.#file) return undefined
    if (!this.#isSorted) return null
    const known = idIn(this.#window, name)
    if (known !== undefined) return known

    // The line of the name begins between these two, if there is one.
    let [low, high] = [0, this.#size]
    while (high - low > WINDOW) {
      const middle = low + Math.floor((high - low) / 2)
      const line = firstLine(await readAt(this.#file, middle, LINES))
      if (line === null) return null
      if (line.name <= name) low = middle + line.start
      else high = middle + line.start
    }
    this.#window = await readAt(this.#file, low, high - low + LINES)
    return idIn(this.#window, name)
  }

  /**
   * Returns the first branches, ordered by the bytes of their names; null if the file is not sorted.
   *
   * @throws the system's error; the signal's reason
   */
  async listBranches(count: number, signal: AbortSignal): Promise<NamedId[] | null> {
    if (!this.#isSorted) return null
    const branches: NamedId[] = []
    if (!this.#file) return branches
    let rest = ''
    const chunks: AsyncIterable<string> = this.#file.createReadStream({
      encoding: 'latin1',
      start: 0,
      autoClose: false,
    })
    for await (const chunk of chunks) {
      signal.throwIfAborted()
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const [, id, name] = BRANCH.exec(line) ?? []
        if (id !== undefined && name !== undefined) branches.push([name, id])
        if (branches.length === count || line.slice(line.indexOf(' ') + 1) > END) return branches
      }
    }
    return branches
  }
}

/** Returns the id of a ref in a part of the file. */
function idIn(text: string, name: string): string | undefined {
  const end = text.indexOf(` ${name}\n`)
  return end === -1 ? undefined : text.slice(text.lastIndexOf('\n', end) + 1, end)
}

/** Returns the first ref whose whole line is in a part of the file, and where its line begins. */
function firstLine(text: string): { name: string; start: number } | null {
  const match = /\n[0-9a-f]+ (.+)(?=\n)/.exec(text)
  return match?.[1] === undefined ? null : { name: match[1], start: match.index + 1 }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<string> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  return buffer.toString('latin1', 0, bytesRead)
}
