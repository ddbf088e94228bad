import { chmodSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { ObjectFormat } from '../../src/domain/commit-id.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import { git, gitWith } from '../helpers/git.ts'

/**
 * Creates a folder that is removed when the test ends. Unlike with `t.testdir`, every user can
 * enter it.
 */
export function temporaryFolder(t: Test): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'git-test-')))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

let lastId = 0

/** A repository on disk with its own id, and methods to add objects quickly. */
export class SampleRepository {
  readonly id: number
  readonly path: string
  readonly objectFormat: ObjectFormat
  readonly ownerTrust = 'trusted'

  constructor(path: string, objectFormat: ObjectFormat) {
    lastId += 1
    this.id = lastId
    this.path = path
    this.objectFormat = objectFormat
  }

  git(...args: string[]): string {
    return git(this.path, ...args)
  }

  /** Writes a blob and returns its id. */
  blob(content: string): string {
    return gitWith(this.path, content, 'hash-object', '-w', '--stdin')
  }

  tree(): string {
    return gitWith(this.path, `100644 blob ${this.blob('content')}\tfile\n`, 'mktree')
  }

  /** Writes an unreachable commit and returns its id. */
  commit(message = 'message'): string {
    return this.git('commit-tree', this.tree(), '-m', message)
  }

  /** Writes an annotated tag and returns the id of the tag object. */
  tag(target: string): string {
    const tagger = 'A <a@example.com> 1700000000 +0000'
    return gitWith(this.path, `object ${target}\ntype commit\ntag v1\ntagger ${tagger}\n\nv1\n`, 'mktag')
  }

  /** Writes `count` commits to `main` in one pack and returns their ids. */
  commits(count: number): string[] {
    let stream = ''
    for (let i = 0; i < count; i += 1) {
      stream += `commit refs/heads/main\ncommitter A <a@example.com> ${1_700_000_000 + i} +0000\ndata 1\n.\n`
    }
    gitWith(this.path, stream, '-c', 'fastimport.unpackLimit=1', 'fast-import', '--quiet')
    return this.git('rev-list', 'main').split('\n')
  }
}

/** Creates a bare repository that is removed when the test ends. */
export async function createSample(t: Test, objectFormat: ObjectFormat = 'sha1'): Promise<SampleRepository> {
  const path = join(temporaryFolder(t), 'repository.git')
  await createBareRepository(path, objectFormat)
  return new SampleRepository(path, objectFormat)
}

/** Returns the ids of the running `git cat-file` processes of a repository. */
export function readersOf(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => commandLine(pid).includes(`--git-dir=${path}\0`) && isRunning(pid))
}

/** Returns whether the process is running; a zombie is not, nor a thread of the kernel. */
export function isRunning(pid: number): boolean {
  try {
    // These have no memory of their own.
    return /^VmSize:/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** Returns the arguments of a process, each ended by a NUL, or an empty text if it has ended. */
export function commandLine(pid: number): string {
  try {
    // For a moment, a process that starts another program has none.
    for (;;) {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      if (line !== '' || !isRunning(pid)) return line
    }
  } catch {
    return ''
  }
}
