import { createHash } from 'node:crypto'
import { constants, deflateSync } from 'node:zlib'

/**
 * Returns a pack of a blob of zeros and deltas that each make one of another size from it
 * (gitformat-pack(5)).
 *
 * @param baseSize at least 65,536
 */
export function packOfDeltas(size: number, count: number, baseSize = size): Buffer {
  const base = Buffer.alloc(baseSize)
  const id = createHash('sha1').update(`blob ${baseSize}\0`).update(base).digest()
  const head = Buffer.from('PACK\0\0\0\x02\0\0\0\0')
  head.writeUInt32BE(count + 1, 8)
  const parts = [head, entry(3, baseSize), deflateSync(base, { strategy: constants.Z_RLE })]
  // Copies 65,536 bytes, again and again.
  const copies = Buffer.alloc(Math.ceil(size / 65_536), 0x80)
  for (let index = 0; index < count; index++) {
    const end = Buffer.from(`${index}`)
    const length = copies.length * 65_536 + end.length
    const delta = Buffer.concat([lengthOf(baseSize), lengthOf(length), copies, Buffer.of(end.length), end])
    parts.push(entry(7, delta.length), id, deflateSync(delta))
  }
  const pack = Buffer.concat(parts)
  return Buffer.concat([pack, createHash('sha1').update(pack).digest()])
}

/** Returns the type and length of an entry of a pack. */
function entry(type: number, length: number): Buffer {
  const rest = Math.floor(length / 16)
  return Buffer.concat([Buffer.of((rest > 0 ? 0x80 : 0) | (type << 4) | (length & 15)), lengthOf(rest)])
}

/** Returns a length, seven bits in each byte, the lowest first. */
function lengthOf(length: number): Buffer {
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 128))
    bytes.push((rest % 128) | (rest >= 128 ? 0x80 : 0))
  return Buffer.from(bytes)
}
