import { createEtag, etagOf } from '../http/etag.ts'
import { runInSlices } from '../util/run-in-slices.ts'

/** A body as it is sent, and its validator. */
export interface EncodedAnswer {
  payload: string | Buffer
  etag: string
}

/** A short text goes out together with the headers; a longer one is not worth encoding again for each answer. */
const ENCODE_ONCE = 8 * 1024
/** Items of a list that are serialized at once: one of 10 KB each takes about a millisecond for 32. */
const ITEMS = 32
/** A list of more items is serialized in slices. */
const FEW = 256

const encoded = new WeakMap<object, EncodedAnswer | Promise<EncodedAnswer>>()

/**
 * Encodes a body; the same object only once. A body with a long list is encoded without keeping the event loop from other
 * work.
 *
 * @param serialize makes JSON of the body, and of what is the same but for a shorter list
 */
export function encode(
  body: object,
  serialize: (body: object) => string,
): EncodedAnswer | Promise<EncodedAnswer> {
  const known = encoded.get(body)
  if (known !== undefined) return known
  const list = longList(body)
  const made = list ? encodeInSlices(body, list, serialize) : encodeAtOnce(serialize(body))
  encoded.set(body, made)
  if (made instanceof Promise) made.catch(() => encoded.delete(body))
  return made
}

function encodeAtOnce(text: string): EncodedAnswer {
  return { payload: text.length > ENCODE_ONCE ? Buffer.from(text) : text, etag: etagOf(text) }
}

interface List {
  name: string
  items: readonly unknown[]
}

/** A body that is itself a list is not taken apart. */
function longList(body: object): List | undefined {
  if (Array.isArray(body)) return undefined
  for (const [name, value] of Object.entries(body))
    if (Array.isArray(value) && value.length > FEW) return { name, items: value }
  return undefined
}

/** The same bytes, put together from the items of bodies that hold a few of them each. */
async function encodeInSlices(
  body: object,
  { name, items }: List,
  serialize: (body: object) => string,
): Promise<EncodedAnswer> {
  const textOf = (from: number, to: number) => serialize({ ...body, [name]: items.slice(from, to) })
  const empty = textOf(0, 0)
  // Up to the bracket that opens the list: an empty list closes it at once.
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
    const text = textOf(done, done + ITEMS)
    add((done > 0 ? ',' : '') + text.slice(head.length, text.length - tail.length))
    done += ITEMS
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
