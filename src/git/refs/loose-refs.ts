import { constants } from 'node:fs'
import { open, readlink } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { hasCode, nullOnSystemError } from '../../util/expected-errors.ts'
import { walk } from '../../util/walk.ts'
import { statIfExists } from '../file-state.ts'

/*
 * Reads refs with files of their own. Only here and in `packed-refs.ts` are refs read without git.
 * What that buys, in milliseconds of CPU on one machine:
 *
 *                                        these files   git
 *   one ref, with a file of its own      0.1           5
 *   one ref, packed among 1,000          0.2           5
 *   one ref, packed among 100,000        0.5           6
 *   20 branches, beside 1,000 packed     1             8
 *   20,000 branches of 100,000           22            120
 *
 * Where it would buy nothing, git is asked: about more refs than these with files of their own, a
 * reftable, and packed refs that are not sorted. Names of refs are decoded as Latin-1, so that they can
 * be any bytes.
 */

/** What the file of a ref says: neither if it is broken. */
interface LooseRef {
  /** The object. */
  id?: string | undefined
  /** The ref that a symbolic one names. */
  target?: string | undefined
}

/** Number of refs of a chain that git follows. It neither reads nor updates the first of a longer one. */
const MAX_CHAIN = 5
/** Maximum number of bytes read of a file. */
const MAX_BYTES = 8 * 1024
/** Errors for a name that is that of no file. */
const NO_FILE = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ENAMETOOLONG']
/** No ref has such a name (git-check-ref-format(1)). Its file may be a lock, or of another folder. */
const NO_REF = /(?:^|\/)(?:\.|$)|\/\/|\.\.|\.lock(?:\/|$)/
const ID = /^([0-9a-f]{40}(?:[0-9a-f]{24})?)(?:\s|$)/
const TARGET = /^ref:[ \t\r\n]*(HEAD|refs\/[!-~\x80-\xff]+)[ \t\r\n]*$/

/** Returns whether refs are in a table, and only git can read them. @throws the system's error */
export async function hasReftable(path: string): Promise<boolean> {
  return (await statIfExists(join(path, 'reftable'))) !== null
}

/**
 * Reads the file of a ref as git does.
 *
 * @returns undefined if there is none
 * @throws the system's error
 */
export async function readLoose(path: string, ref: string): Promise<LooseRef | undefined> {
  if (NO_REF.test(ref)) return {}
  const text = await readRefFile(Buffer.concat([Buffer.from(`${path}/`), Buffer.from(ref, 'latin1')]))
  if (text === undefined) return undefined
  const target = TARGET.exec(text)?.[1]
  if (target === undefined) return { id: ID.exec(text)?.[1] }
  // git rejects such a name too. It could lead out of the repository.
  return target.includes('..') ? {} : { target }
}

/** Returns the ref that a symbolic one names; undefined if it is none, or cannot be read. */
export async function readTarget(path: string, ref: string): Promise<string | undefined> {
  return (await readLoose(path, ref).catch(nullOnSystemError))?.target
}

/** Returns a ref and those to which it leads, in order. Only the last is not symbolic. */
export async function followSymbolic(
  ref: string,
  targetOf: (ref: string) => Promise<string | undefined>,
): Promise<string[]> {
  const chain = [ref]
  let target = await targetOf(ref)
  while (target !== undefined && chain.length < MAX_CHAIN) {
    chain.push(target)
    target = await targetOf(target)
  }
  return chain
}

/**
 * Lists the refs below a folder such as `refs/heads`, in no order.
 *
 * @returns null for a name that is not UTF-8, whose file Node.js cannot name
 */
export async function* listLoose(path: string, folder: string): AsyncGenerator<string | null> {
  for await (const { path: file, isFolder } of walk(join(path, folder))) {
    const name = relative(path, file)
    if (isFolder || NO_REF.test(name)) continue
    yield name.includes('\ufffd') ? null : Buffer.from(name).toString('latin1')
  }
}

/** Returns the text of a ref's file; undefined if there is none. */
async function readRefFile(file: Buffer): Promise<string | undefined> {
  try {
    return await readStart(file, constants.O_NOFOLLOW)
  } catch (error) {
    if (hasCode(error, ...NO_FILE)) return undefined
    if (!hasCode(error, 'ELOOP')) throw error
  }
  const link = await readlink(file, 'latin1')
  if (link.startsWith('refs/')) return `ref: ${link}`
  return readStart(file).catch((error: unknown) => {
    if (hasCode(error, 'ELOOP', ...NO_FILE)) return undefined
    throw error
  })
}

/**
 * Returns the beginning of a file. Does not block on a pipe.
 *
 * @param flags of open(2), beside those for reading
 */
async function readStart(file: Buffer, flags = 0): Promise<string> {
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | flags)
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(MAX_BYTES) })
  return buffer.toString('latin1', 0, bytesRead)
}
