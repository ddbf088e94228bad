import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, sep } from 'node:path'
import { memoizeByObject } from '../../../src/util/memoize.ts'
import type { Random } from '../../helpers/random.ts'
import type { Traced } from './trace.ts'

/** How the disk treats names (entries of folders) that nobody has synced. */
export type Names =
  /**
   * They reach the disk in the order in which they were changed, as with a journal: ext4, XFS.
   * Syncing a file or folder brings all earlier changes with it.
   */
  | 'in order'
  /**
   * Each is lost or kept by itself. POSIX promises no more, and only for a folder that was synced.
   */
  | 'independent'

export interface Cut {
  /** Actions that have begun when the power goes: those before this index. */
  at: number
  names: Names
  random: Random
  /** Leaves out syncs, as if the program had not asked for them. */
  ignores?: Ignores
}

export type Ignores = (sync: Traced & { kind: 'sync' }, of: Node['kind']) => boolean

interface File {
  kind: 'file' | 'symlink'
  /** In order. A symlink has one write, of its target. */
  changes: Change[]
  syncs: Sync[]
}

interface Folder {
  kind: 'folder'
  /** As programs see it at the end. */
  entries: Map<string, Node>
  syncs: Sync[]
}

type Node = File | Folder

/** Of a file's content. */
interface Change {
  at: number
  end: number
  /** null: a truncation to `size`. */
  bytes: Buffer | null
  /** null: at the file's end. */
  offset: number | null
  size: number
}

/** One entry of a folder is set or removed. */
interface Entry {
  at: number
  end: number
  folder: Folder
  name: string
  node: Node | null
}

interface Sync {
  /** What ended after this may not be covered. */
  start: number
  action: Traced & { kind: 'sync' }
  of: Node['kind']
  /** The last action that the file or folder had seen. */
  latest: number
}

/**
 * A folder on disk whose every change is known, so that the disk can be put together as it was
 * after a power cut.
 */
export class Disk {
  readonly #path: string
  readonly #root: Folder
  readonly #entries: Entry[] = []
  readonly #syncs: Sync[] = []
  /** When each action began. */
  readonly #starts: number[] = []
  /** The synced content of files as it was last put together, by the number of changes. */
  readonly #contents = new Map<File, { count: number; content: Buffer }>()
  /**
   * When a file or folder was last changed, by index and time; several, since a sync may run beside
   * a change.
   */
  readonly #changes = new Map<Node, { at: number; end: number }[]>()

  /** @param path a folder that is on disk as it is now */
  constructor(path: string) {
    this.#path = path
    this.#root = load(path, (folder, name, node) => {
      this.#entries.push({ at: -1, end: Number.NEGATIVE_INFINITY, folder, name, node })
    })
  }

  contains(path: string): boolean {
    return path.startsWith(this.#path + sep)
  }

  /**
   * Takes in what happened, in order; `at` is the action's index. Actions elsewhere are left out.
   */
  record(action: Traced, at: number): void {
    this.#starts[at] = action.start
    if (action.kind === 'sync') this.#sync(action)
    else if ('path' in action) this.#write(action, at)
  }

  #write(action: Traced & { path: string }, at: number): void {
    const { end } = action
    if (action.kind === 'rename' || action.kind === 'link') {
      const node = this.#find(action.from)
      const target = this.#place(action.path)
      const source = this.#place(action.from)
      if (!target && !source) return
      if (!node || !target || !source) throw new Error(`${action.kind} of ${action.from}, which is unknown`)
      this.#set(target, node, at, end)
      if (action.kind === 'rename') this.#set(source, null, at, end)
      return
    }
    const place = this.#place(action.path)
    if (!place) return
    const node = this.#find(action.path)
    switch (action.kind) {
      case 'folder':
        this.#set(place, { kind: 'folder', entries: new Map(), syncs: [] }, at, end)
        return
      case 'symlink': {
        const target = { at, end, bytes: Buffer.from(action.target), offset: 0, size: 0 }
        this.#set(place, { kind: 'symlink', changes: [target], syncs: [] }, at, end)
        return
      }
      case 'remove':
        this.#set(place, null, at, end)
        return
      case 'open':
        if (!node) this.#set(place, { kind: 'file', changes: [], syncs: [] }, at, end)
        else if (action.truncates) this.#change(node, { at, end, bytes: null, offset: null, size: 0 })
        return
      case 'truncate':
        this.#change(node, { at, end, bytes: null, offset: null, size: action.size })
        return
      case 'write':
        this.#change(node, { at, end, bytes: action.bytes, offset: action.offset, size: 0 })
        return
    }
  }

  /** Writes into the empty folder `target` what a disk holds after a power cut. */
  write(target: string, { at, names, random, ignores = () => false }: Cut): void {
    const time = this.#starts[at - 1] ?? Number.NEGATIVE_INFINITY
    const counts = ({ action, of }: Sync) => action.end <= time && !ignores(action, of)
    const syncedUntil = memoizeByObject(
      (node: Node) => node.syncs.findLast(counts)?.start ?? Number.NEGATIVE_INFINITY,
    )
    const keepsEntry =
      names === 'in order' ? this.#prefix(at, counts, random) : this.#oneByOne(syncedUntil, random)
    const folders = new Map<Folder, Map<string, Node>>()
    for (const entry of this.#entries) {
      if (entry.at >= at) break
      if (!keepsEntry(entry)) continue
      const entries = folders.get(entry.folder) ?? new Map<string, Node>()
      folders.set(entry.folder, entries)
      if (entry.node) entries.set(entry.name, entry.node)
      else entries.delete(entry.name)
    }
    const fate = fates(random)
    const writeFolder = (folder: Folder, path: string) => {
      for (const [name, node] of folders.get(folder) ?? []) {
        const below = join(path, name)
        if (node.kind === 'folder') {
          mkdirSync(below)
          writeFolder(node, below)
        } else {
          const content = this.#content(node, at, syncedUntil(node), fate)
          if (node.kind === 'symlink') symlinkSync(content.toString(), below)
          else writeFileSync(below, content)
        }
      }
    }
    writeFolder(this.#root, target)
  }

  /** Compares what was recorded with what is there at the end. @returns paths that differ */
  differences(ignores: (path: string) => boolean): string[] {
    const found: string[] = []
    const compare = (one: Folder, other: Folder, path: string) => {
      for (const name of new Set([...one.entries.keys(), ...other.entries.keys()])) {
        const [a, b] = [one.entries.get(name), other.entries.get(name)]
        const below = join(path, name)
        if (ignores(below)) continue
        if (a?.kind === 'folder' && b?.kind === 'folder') compare(a, b, below)
        else if (!a || !b || a.kind === 'folder' || b.kind === 'folder') found.push(below)
        else if (!wholeOf(a).equals(wholeOf(b))) found.push(below)
      }
    }
    compare(
      this.#root,
      load(this.#path, () => {}),
      this.#path,
    )
    return found
  }

  #sync(action: Traced & { kind: 'sync' }): void {
    const node = this.#find(action.path)
    if (!node) return
    const { start } = action
    const seen = (this.#changes.get(node) ?? []).findLast((change) => change.end <= start)
    const sync = { start, action, of: node.kind, latest: seen?.at ?? -1 }
    node.syncs.push(sync)
    this.#syncs.push(sync)
  }

  /** A journal is a prefix of all changes, at least up to what a sync has brought to disk. */
  #prefix(at: number, counts: (sync: Sync) => boolean, random: Random): (entry: Entry) => boolean {
    const least = Math.max(-1, ...this.#syncs.filter(counts).map((sync) => sync.latest))
    const last = least + random.below(at - least)
    return (entry) => entry.at <= last
  }

  /**
   * Both halves of a rename share their fate, except where the folder of one of them was synced.
   */
  #oneByOne(syncedUntil: (node: Node) => number, random: Random): (entry: Entry) => boolean {
    const percent = random.pick([0, 0, 50, 90])
    const kept = new Map<number, boolean>()
    return ({ at, end, folder }) => {
      if (end <= syncedUntil(folder)) return true
      if (!kept.has(at)) kept.set(at, random.below(100) < percent)
      return kept.get(at) === true
    }
  }

  #content(file: File, at: number, syncedUntil: number, fate: () => Fate): Buffer {
    const changes = file.changes.filter((change) => change.at < at)
    const synced = changes.filter(({ end }) => file.kind === 'symlink' || end <= syncedUntil)
    const known = this.#contents.get(file)
    const content = known?.count === synced.length ? known.content : apply(Buffer.alloc(0), synced)
    this.#contents.set(file, { count: synced.length, content })
    if (synced.length === changes.length) return content
    return apply(content, changes.slice(synced.length), fate())
  }

  #place(path: string): { folder: Folder; name: string } | null {
    if (!this.contains(path)) return null
    const folder = this.#find(dirname(path))
    if (folder?.kind !== 'folder') throw new Error(`the folder of ${path} is unknown`)
    return { folder, name: basename(path) }
  }

  #find(path: string): Node | undefined {
    if (path === this.#path) return this.#root
    let node: Node | undefined = this.#root
    for (const name of path.slice(this.#path.length + 1).split(sep)) {
      node = node?.kind === 'folder' ? node.entries.get(name) : undefined
    }
    return node
  }

  #set({ folder, name }: { folder: Folder; name: string }, node: Node | null, at: number, end: number): void {
    if (node) folder.entries.set(name, node)
    else folder.entries.delete(name)
    this.#entries.push({ at, end, folder, name, node })
    this.#note(folder, at, end)
    if (node) this.#note(node, at, end)
  }

  #change(node: Node | undefined, change: Change): void {
    if (node?.kind !== 'file') throw new Error('a change of something that is no file')
    node.changes.push(change)
    this.#note(node, change.at, change.end)
  }

  #note(node: Node, at: number, end: number): void {
    const changes = this.#changes.get(node) ?? []
    this.#changes.set(node, changes)
    changes.push({ at, end })
  }
}

/**
 * What becomes of a change of a file's content that was not synced: by itself, whatever became of
 * others.
 */
type Fate = (change: Change) => 'kept' | 'lost' | 'zeros'

/**
 * Chooses a fate for each file: mostly the worst for all of them, where nothing was written but
 * what was synced.
 */
function fates(random: Random): () => Fate {
  const lost: Fate = () => 'lost'
  const kept: Fate = () => 'kept'
  // The file's new length is on disk before its blocks are.
  const zeros: Fate = () => 'zeros'
  const mixed: Fate = () => random.pick(['kept', 'lost'])
  if (random.below(100) < 40) return () => lost
  return () => random.pick([lost, lost, kept, zeros, mixed])
}

function apply(content: Buffer, changes: readonly Change[], fate: Fate = () => 'kept'): Buffer {
  let file = content
  const resize = (size: number) => {
    const resized = Buffer.alloc(size)
    file.copy(resized)
    return resized
  }
  // Room for all, so that a file that is written in many steps is copied once.
  let size = file.length
  for (const change of changes) {
    const becomes = fate(change)
    if (becomes === 'lost') continue
    const { bytes, offset } = change
    if (bytes === null) {
      size = change.size
      file = resize(size)
      continue
    }
    const start = offset ?? size
    if (start + bytes.length > file.length) file = resize(2 * (start + bytes.length))
    else if (file === content) file = Buffer.from(content)
    if (becomes === 'kept') bytes.copy(file, start)
    size = Math.max(size, start + bytes.length)
  }
  return file.subarray(0, size)
}

function wholeOf(file: File): Buffer {
  return apply(Buffer.alloc(0), file.changes)
}

/** @param onEntry told of every entry of every folder */
function load(path: string, onEntry: (folder: Folder, name: string, node: Node) => void): Folder {
  const folder: Folder = { kind: 'folder', entries: new Map(), syncs: [] }
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const below = join(path, entry.name)
    const node = entry.isDirectory() ? load(below, onEntry) : loadFile(below, entry.isSymbolicLink())
    folder.entries.set(entry.name, node)
    onEntry(folder, entry.name, node)
  }
  return folder
}

function loadFile(path: string, isLink: boolean): File {
  const bytes = isLink ? Buffer.from(readlinkSync(path)) : readFileSync(path)
  const change = { at: -1, end: Number.NEGATIVE_INFINITY, bytes, offset: 0, size: 0 }
  return { kind: isLink ? 'symlink' : 'file', changes: [change], syncs: [] }
}
