import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createBareRepository, type ObjectFormat } from '../../src/git/repository.ts'

/** The environment of the git commands with which tests prepare repositories: nobody's configuration. */
const environment = {
  PATH: process.env.PATH,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@example.com',
}

/** Runs git and returns its trimmed output. */
export function git(directory: string, args: readonly string[], input = ''): string {
  const stdio = ['pipe', 'pipe', 'pipe'] as const
  return execFileSync('git', ['-C', directory, ...args], {
    encoding: 'utf8',
    env: environment,
    input,
    stdio: [...stdio],
  }).trim()
}

/** A folder that goes when the test ends. Unlike `t.testdir` every user may enter it. */
export function temporaryFolder(t: Test): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'git-test-')))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

let lastId = 0

/** A repository on disk with its own id, and quick ways to put objects in. */
export class SampleRepository {
  readonly id: number
  readonly path: string
  readonly managed = true
  readonly objectFormat: ObjectFormat

  constructor(path: string, objectFormat: ObjectFormat) {
    lastId += 1
    this.id = lastId
    this.path = path
    this.objectFormat = objectFormat
  }

  git(...args: string[]): string {
    return git(this.path, args)
  }

  /** Writes a blob and returns its id. */
  blob(content: string): string {
    return git(this.path, ['hash-object', '-w', '--stdin'], content)
  }

  tree(): string {
    return git(this.path, ['mktree'], `100644 blob ${this.blob('content')}\tfile\n`)
  }

  /** Writes a commit that no branch leads to and returns its id. */
  commit(message = 'message'): string {
    return git(this.path, ['commit-tree', this.tree(), '-m', message])
  }

  /** Writes an annotated tag and returns the id of the tag object. */
  tag(target: string): string {
    const tagger = 'A <a@example.com> 1700000000 +0000'
    return git(this.path, ['mktag'], `object ${target}\ntype commit\ntag v1\ntagger ${tagger}\n\nv1\n`)
  }

  /** Writes `count` commits to `main` in one pack and returns their ids. */
  commits(count: number): string[] {
    let stream = ''
    for (let i = 0; i < count; i += 1) {
      stream += `commit refs/heads/main\ncommitter A <a@example.com> ${1_700_000_000 + i} +0000\ndata 1\n.\n`
    }
    git(this.path, ['-c', 'fastimport.unpackLimit=1', 'fast-import', '--quiet'], stream)
    return this.git('rev-list', 'main').split('\n')
  }
}

/** Creates a bare repository in a folder that goes when the test ends. */
export async function createSample(t: Test, objectFormat: ObjectFormat = 'sha1'): Promise<SampleRepository> {
  const path = join(temporaryFolder(t), 'repository.git')
  await createBareRepository(path, objectFormat)
  return new SampleRepository(path, objectFormat)
}

/**
 * Puts a program in the place of git until the test ends.
 *
 * @param script what a POSIX shell runs
 */
export function replaceGit(t: Test, script: string): void {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'git'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  const before = process.env.PATH
  process.env.PATH = `${folder}:${before}`
  t.teardown(() => {
    process.env.PATH = before
  })
}

/** The process ids of the running `git cat-file` of a repository. */
export function readersOf(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => commandLine(pid).includes(`--git-dir=${path}\0`) && isRunning(pid))
}

/** Whether the process exists and has not ended; one that only waits to be collected by its parent has. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s*[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** The arguments of a process, each ended by a NUL; empty when it is gone. */
export function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** Waits until `condition` holds, at most five seconds. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 5000
  while (!(await condition())) {
    if (performance.now() > end) throw new Error('waited for five seconds in vain')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
