import { constants } from 'node:fs'
import { open, readlink } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { nullOnSystemError } from '../../errors.ts'
import { walk } from '../../util/walk.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { listRefs, type RunLimits } from './list-refs.ts'

/** Number of refs of a chain that git follows. It neither reads nor updates the first of a longer one. */
export const MAX_CHAIN = 5
/** Maximum number of bytes read of a symbolic ref. */
const REF_LENGTH = 8 * 1024

/**
 * Returns the symbolic refs below `refs`, each with the ref at the end of its chain, which need not
 * exist. Names are decoded as Latin-1.
 *
 * @throws GitFailed; the signal's reason
 */
export async function readSymbolicRefs(
  repository: OpenedRepository,
  limits: RunLimits,
): Promise<Map<string, string>> {
  const targets = new Map<string, string>()
  await listRefs(repository, ['refname', 'symref'], limits, ([ref = '', target = '']) => {
    targets.set(ref, target)
  })
  await addSymbolicFiles(repository.path, targets)
  const ends = new Map<string, string>()
  for (const [ref, target] of targets) {
    const chain = target && (await followSymbolic(ref, async (name) => targets.get(name) || undefined))
    if (chain) ends.set(ref, chain.at(-1) ?? '')
  }
  return ends
}

/**
 * Adds what git does not list: symbolic refs that lead nowhere, and of a chain more than its end. A
 * reftable has no such files.
 *
 * @param targets what git lists, with an empty target for a ref that is not symbolic
 */
export async function addSymbolicFiles(path: string, targets: Map<string, string>): Promise<void> {
  for await (const { path: file, isFolder } of walk(join(path, 'refs'))) {
    const name = Buffer.from(relative(path, file)).toString('latin1')
    if (isFolder || name.endsWith('.lock') || targets.get(name) === '') continue
    const target = await symbolicTarget(file)
    if (target !== undefined) targets.set(name, target)
  }
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

/** Returns the ref that a file or a symbolic link names, decoded as Latin-1; undefined if none. */
export async function symbolicTarget(file: string): Promise<string | undefined> {
  const link = await readlink(file, 'latin1').catch(nullOnSystemError)
  const text = link?.startsWith('refs/') ? `ref: ${link}` : await readStart(file).catch(nullOnSystemError)
  return text === null ? undefined : targetIn(text)
}

/** Returns the ref that the text of a symbolic ref names; undefined if it is none. */
export function targetIn(text: string): string | undefined {
  const target = /^ref:[ \t]*(refs\/[!-~\x80-\xff]+)[ \t\r\n]*$/.exec(text)?.[1]
  // git rejects such a name too. It could lead out of the repository.
  return target?.includes('..') ? undefined : target
}

/**
 * Returns the beginning of a file. Does not block on a pipe.
 *
 * @param flags of open(2), beside those for reading
 * @throws the system's error
 */
export async function readStart(file: string | Buffer, flags = 0): Promise<string> {
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | flags)
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(REF_LENGTH) })
  return buffer.toString('latin1', 0, bytesRead)
}
