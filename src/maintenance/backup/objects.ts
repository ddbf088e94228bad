import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { chmod, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { type OpenedRepository, openRepository } from '../../git/opened-repository.ts'
import { createBareRepository } from '../../git/repository.ts'
import { indexPack } from '../../git/transfer.ts'
import { publish, syncPath, writeDurably } from '../../util/durable.ts'
import { isExpected, isMissing } from '../../util/expected-errors.ts'

/** The repository that all backups of a repository share. */
export interface SharedObjects {
  path: string
  format: ObjectFormat
}

/** What a backup has read of its folder. */
export interface Verification {
  bytes: number
  seconds: number
  /** One sentence for each damage that was found. */
  notes: string[]
}

/** git names a pack by its digest. */
const PACK = /^pack-([0-9a-f]+)\.pack$/
/** What git leaves among the packs when it is killed. */
const LEFTOVER = /^\.?tmp[-_]|\.(?:lock|keep)$/
/** A line by which git knows what is there. It has the id twice, so damage to it is seen. */
const TIP = /^([0-9a-f]+) refs\/tips\/\1$/
const HEAD = 'ref: refs/heads/main\n'

/**
 * Opens the shared repository, after reading all of it. A damaged file that follows from others is
 * written again. If a pack is damaged, the repository is set aside.
 *
 * @param name of the backup that is being made
 */
export async function openObjects(
  objects: SharedObjects,
  name: string,
  verification: Verification,
): Promise<OpenedRepository> {
  if (existsSync(objects.path)) {
    const began = performance.now()
    const damage = await repair(objects, verification)
    verification.seconds += (performance.now() - began) / 1000
    if (damage) return setAside(objects, name, damage, verification)
  } else await createObjects(objects)
  return openRepository({ path: objects.path, ownerTrust: 'trusted' })
}

/** Sets the shared repository aside as `PATH.damaged-NAME`, and opens an empty one in its place. */
export async function setAside(
  objects: SharedObjects,
  name: string,
  damage: string,
  verification: Verification,
): Promise<OpenedRepository> {
  const aside = `${objects.path}.damaged-${name}`
  await publish(objects.path, aside)
  verification.notes.push(`${damage}; set aside as ${aside}, and fetched afresh`)
  await createObjects(objects)
  return openRepository({ path: objects.path, ownerTrust: 'trusted' })
}

/** Returns the paths of what was set aside in the place of a shared repository. */
export async function findAside(path: string): Promise<string[]> {
  const names = await readdir(dirname(path))
  const aside = names.filter((name) => name.startsWith(`${basename(path)}.damaged-`))
  return aside.map((name) => join(dirname(path), name))
}

/** Returns the names of the packs of a shared repository. */
export async function packsIn(path: string): Promise<string[]> {
  return (await readdir(join(path, 'objects', 'pack'))).filter((name) => PACK.test(name))
}

/**
 * Makes sure that a pack has the digest in its name. If only the copy of it at the end of the pack
 * is damaged, that is written again.
 */
export async function verifyPack(
  { path, format }: SharedObjects,
  pack: string,
  verification: Verification,
): Promise<boolean> {
  const file = join(path, 'objects', 'pack', pack)
  const name = PACK.exec(pack)?.[1]
  const digests = await readDigests(file, format, verification)
  if (name === undefined || digests?.actual !== name) return false
  if (digests.stored === name) return true
  await chmod(file, 0o600)
  await using handle = await open(file, 'r+')
  const digest = Buffer.from(name, 'hex')
  await handle.write(digest, 0, digest.length, (await handle.stat()).size - digest.length)
  await handle.sync()
  verification.notes.push(`${file} was damaged; it was repaired`)
  return true
}

/** Repairs what follows from the packs. Returns what is damaged beyond that. */
async function repair(objects: SharedObjects, verification: Verification): Promise<string | undefined> {
  const { path, format } = objects
  const packs = join(path, 'objects', 'pack')
  let damage: string | undefined
  try {
    const tips = (await readIfExists(join(path, 'packed-refs'))).split('\n').filter((line) => TIP.test(line))
    const expected = {
      HEAD,
      config: configOf(format),
      'packed-refs': tips.map((line) => `${line}\n`).join(''),
    }
    for (const [name, text] of Object.entries(expected)) {
      const file = join(path, name)
      if ((await readIfExists(file)) === text) continue
      await writeDurably(file, text)
      verification.notes.push(`${file} was damaged; it was written again`)
    }

    for (const name of await readdir(packs)) if (LEFTOVER.test(name)) await rm(join(packs, name))
    const repository = await openRepository({ path, ownerTrust: 'trusted' })
    for (const pack of await packsIn(path)) {
      const isWhole = await verifyPack(objects, pack, verification)
      if (!isWhole) damage ??= `${join(packs, pack)} is damaged`
      const index = join(packs, pack.replace(/pack$/, 'idx'))
      const reverse = join(packs, pack.replace(/pack$/, 'rev'))
      const areWhole = [index, ...(existsSync(reverse) ? [reverse] : [])].map(async (file) => {
        const digests = await readDigests(file, format, verification)
        return digests !== null && digests.actual === digests.stored
      })
      // What can be read of a damaged pack is read by its index.
      if (!isWhole || !(await Promise.all(areWhole)).includes(false)) continue
      for (const file of [index, reverse]) await rm(file, { force: true })
      await indexPack(repository, join(packs, pack))
      await syncPath(packs)
      verification.notes.push(`${index} was damaged; it was written again`)
    }
  } catch (error) {
    if (!isExpected(error)) throw error
    damage ??= `${path} cannot be read: ${error.message}`
  }
  return damage
}

async function createObjects({ path, format }: SharedObjects): Promise<void> {
  const draft = `${path}.part`
  await rm(draft, { recursive: true, force: true })
  await createBareRepository(draft, format)
  await writeDurably(join(draft, 'config'), configOf(format))
  await publish(draft, path)
}

function configOf(format: ObjectFormat): string {
  const version = format === 'sha1' ? 0 : 1
  const extensions = format === 'sha1' ? '' : `[extensions]\n\tobjectformat = ${format}\n`
  // Also for whoever runs git there: nothing may ever be pruned.
  return `[core]\n\trepositoryformatversion = ${version}\n\tfilemode = true\n\tbare = true\n${extensions}[gc]\n\tauto = 0\n`
}

/**
 * Returns the digest of a file of git, and the one at its end, which is of all before it. null if
 * the file is missing or too short.
 */
async function readDigests(
  file: string,
  format: ObjectFormat,
  verification: Verification,
): Promise<{ actual: string; stored: string } | null> {
  const hash = createHash(format)
  const length = format === 'sha1' ? 20 : 32
  try {
    const { size } = await stat(file)
    verification.bytes += size
    if (size <= length) return null
    await pipeline(createReadStream(file, { end: size - length - 1 }), hash)
    const storedDigest = Buffer.concat(await createReadStream(file, { start: size - length }).toArray())
    return { actual: hash.digest('hex'), stored: storedDigest.toString('hex') }
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** Returns the content of a file, decoded as Latin-1; empty if it is missing. */
async function readIfExists(file: string): Promise<string> {
  return readFile(file, 'latin1').catch((error: unknown) => {
    if (isMissing(error)) return ''
    throw error
  })
}
