import type { AnyReply } from '../../generated/handlers.ts'
import { createEtag, etagOf } from '../http/etag.ts'
import { runInSlices } from '../util/run-in-slices.ts'

/** A body as it is sent, and its validator (RFC 9110, 8.8). */
interface EncodedAnswer {
  payload: string | Buffer
  etag: string
}

/** Characters. Node sends a shorter text in one piece with the headers; a longer one is worth encoding only once. */
const ENCODE_ONCE = 8 * 1024
/** Items in a slice: about a millisecond for 32 items of 10 KB each. */
const ITEMS = 32
/** A list with more items is encoded in slices. */
const UNSLICED_ITEMS = 256

/** Encodes the answers of one operation. */
export type Encode = (
  answer: Pick<AnyReply, 'body' | 'source'>,
  serialize: (body: object | null) => string,
) => EncodedAnswer | Promise<EncodedAnswer>

/**
 * Returns a function that encodes the body of an answer, or returns what it encoded before for the same source. This is
 * the only cache on the way from rows to bytes. A body with a long list is encoded in slices, so that other requests are
 * served in between.
 */
export function createEncoder(): Encode {
  const cache = new WeakMap<object, EncodedAnswer | Promise<EncodedAnswer>>()
  return ({ body, source }, serialize) => {
    const cached = source && cache.get(source)
    if (cached !== undefined) return cached
    const value: object | null = typeof body === 'function' ? body() : body
    const list = longList(value)
    const encoded = list ? encodeInSlices(value, list, serialize) : encodeAtOnce(serialize(value))
    if (source) {
      cache.set(source, encoded)
      if (encoded instanceof Promise) encoded.catch(() => cache.delete(source))
    }
    return encoded
  }
}

function encodeAtOnce(text: string): EncodedAnswer {
  return { payload: text.length > ENCODE_ONCE ? Buffer.from(text) : text, etag: etagOf(text) }
}

interface List {
  name: string
  items: readonly unknown[]
  /** How many items are encoded at once. */
  step: number
}

/**
 * Returns the long list in a body, or the list of which an item contains a long one. A body that is itself a list is encoded
 * at once.
 */
function longList(body: object | null): List | undefined {
  for (const [name, items] of listsIn(body)) {
    if (items.length > UNSLICED_ITEMS) return { name, items, step: ITEMS }
    // All items have the same fields.
    if (listsIn(items[0]).length === 0) continue
    if (items.some((item) => listsIn(item).some(([, { length }]) => length > UNSLICED_ITEMS)))
      return { name, items, step: 1 }
  }
  return undefined
}

function listsIn(value: unknown): [name: string, items: readonly unknown[]][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  const fields: [string, unknown][] = Object.entries(value)
  return fields.filter((field): field is [string, unknown[]] => Array.isArray(field[1]))
}

/** Returns the same bytes as `encodeAtOnce`, put together from bodies with a few items each. */
async function encodeInSlices(
  body: object | null,
  { name, items, step }: List,
  serialize: (body: object | null) => string,
): Promise<EncodedAnswer> {
  const textOf = (from: number, to: number) => serialize({ ...body, [name]: items.slice(from, to) })
  const empty = textOf(0, 0)
  // The head ends with the bracket that opens the list.
  const head = commonPrefix(empty, textOf(0, 1))
  const tail = empty.slice(head.length)
  const parts: Buffer[] = []
  const etag = createEtag()
  const add = (text: string) => {
    const part = Buffer.from(text)
    parts.push(part)
    etag.update(part)
  }

  add(head)
  let done = 0
  await runInSlices(() => {
    const text = textOf(done, done + step)
    add((done > 0 ? ',' : '') + text.slice(head.length, text.length - tail.length))
    done += step
    return done < items.length
  })
  add(tail)
  return { payload: Buffer.concat(parts), etag: etag.end() }
}

function commonPrefix(a: string, b: string): string {
  let length = 0
  while (length < a.length && a[length] === b[length]) length++
  return a.slice(0, length)
}
