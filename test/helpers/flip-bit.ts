import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Random } from './random.ts'

/** Flips one bit of a random file below a folder, or of those whose path matches. Returns where. */
export function flipBit(folder: string, random: Random, pattern = /./): string {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const matching = paths.filter((path) => pattern.test(path) && readFileSync(path).length > 0).sort()
  const path = matching[random.below(matching.length)] ?? ''
  const bytes = readFileSync(path)
  const [offset, bit] = [random.below(bytes.length), random.below(8)]
  bytes.writeUInt8(bytes.readUInt8(offset) ^ (1 << bit), offset)
  // Files of git are read-only.
  rmSync(path)
  writeFileSync(path, bytes)
  return `${path} byte ${offset} bit ${bit}`
}
