import { LRUCache } from 'lru-cache'
import { bytesOfTexts } from '../util/memory.ts'
import { type FilesState, isCurrent } from './file-state.ts'

interface Entry<Value> {
  readonly value: Value
  readonly state: FilesState | undefined
}

interface FileCacheLimits<Value> {
  /** Of all values together; the least recently used ones are dropped. */
  maxBytes: number
  /** Returns about how much memory a value takes. */
  bytesOf(value: Value): number
  /** Milliseconds for which a value is kept, whatever its files say. Default: for ever. */
  maxAge?: number
}

/** Caches what was read of a repository until its files change. */
export class FileCache<Value extends object> {
  readonly #entries: LRUCache<string, Entry<Value>>

  constructor({ maxBytes, bytesOf, maxAge = 0 }: FileCacheLimits<Value>) {
    this.#entries = new LRUCache<string, Entry<Value>>({
      maxSize: maxBytes,
      // An empty value takes some memory too, and so do the paths by which changes are noticed.
      sizeCalculation: ({ state, value }, key) =>
        500 + bytesOfTexts([key, ...(state?.paths ?? [])]) + bytesOf(value),
      ttl: maxAge,
    })
  }

  /** Returns the cached value; undefined if there is none, or if files have changed since. */
  async get(key: string): Promise<Value | undefined> {
    const entry = this.#entries.get(key)
    const isKept = entry && (entry.state === undefined || (await isCurrent(entry.state)))
    return isKept ? entry.value : undefined
  }

  /** Returns whether a value was cached, which may have changed since. */
  has(key: string): boolean {
    return this.#entries.has(key)
  }

  /** @param state of the files, from before the value was read; undefined: no change matters */
  set(key: string, value: Value, state: FilesState | undefined): void {
    this.#entries.set(key, { value, state })
  }
}
