import { type ExecFileSyncOptionsWithStringEncoding, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'

/** Bytes: the ids of a large repository. */
const MAX_OUTPUT = 64 * 1024 * 1024
const ENVIRONMENT = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Test',
  GIT_AUTHOR_EMAIL: 'test@example.org',
  GIT_COMMITTER_NAME: 'Test',
  GIT_COMMITTER_EMAIL: 'test@example.org',
  GIT_TERMINAL_PROMPT: '0',
  LC_ALL: 'C',
}

/** Runs git in `folder` and returns its output. */
export function git(folder: string, ...args: string[]): string {
  return gitWith(folder, '', ...args)
}

/** Runs git with `input` on stdin. */
function gitWith(folder: string, input: string, ...args: string[]): string {
  const options: ExecFileSyncOptionsWithStringEncoding = {
    cwd: folder,
    env: ENVIRONMENT,
    encoding: 'utf8',
    input,
    stdio: ['pipe', 'pipe', 'pipe'],
    maxBuffer: MAX_OUTPUT,
  }
  return execFileSync('git', args, options).trim()
}

/** Pushes `count` new commits to the repository and returns their ids, oldest first. */
export function pushCommits(repository: string, count: number, branch = 'main'): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'commits-'))
  try {
    const format = git(repository, 'rev-parse', '--show-object-format')
    git(folder, 'init', '--quiet', `--object-format=${format}`, '--initial-branch=main')
    const now = Math.floor(Date.now() / 1000)
    const commits = Array.from({ length: count }, (_, index) => {
      const message = `Commit ${index} of ${folder}`
      return `commit HEAD\ncommitter Test <test@example.org> ${now} +0000\ndata ${message.length}\n${message}\n`
    })
    gitWith(folder, commits.join('\n'), 'fast-import', '--quiet')
    git(folder, 'push', '--quiet', '--force', repository, `HEAD:refs/heads/${branch}`)
    return git(folder, 'rev-list', '--reverse', 'HEAD').split('\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Adds `count` new commits to a repository in one process, on a branch of their own under `refs/import/`, and returns
 * their ids, oldest first.
 */
export function importCommits(
  repository: string,
  count: number,
  messageOf = (index: number, branch: string) => `Commit ${index} of ${branch}`,
): string[] {
  const from = `refs/import/${randomBytes(8).toString('hex')}`
  const commits = Array.from({ length: count }, (_, index) => {
    const message = messageOf(index, from)
    const length = Buffer.byteLength(message)
    return `commit ${from}\ncommitter Test <test@example.org> ${1_700_000_000 + index} +0000\ndata ${length}\n${message}\n`
  })
  const options: ExecFileSyncOptionsWithStringEncoding = {
    cwd: repository,
    env: ENVIRONMENT,
    encoding: 'utf8',
    input: commits.join(''),
    stdio: ['pipe', 'pipe', 'pipe'],
  }
  execFileSync('git', ['fast-import', '--quiet'], options)
  return git(repository, 'rev-list', '--reverse', from).split('\n')
}

/**
 * Replaces git by a shell script, for this process and until the test ends.
 *
 * @param folder for the script
 * @param script in which `$git` is the path of the real one
 */
export function replaceGit(t: Test, folder: string, script: string): void {
  const real = execFileSync('which', ['git'], { encoding: 'utf8' }).trim()
  writeFileSync(join(folder, 'git'), `#!/bin/sh\ngit=${real}\n${script}\n`, { mode: 0o755 })
  const { PATH = '' } = process.env
  process.env.PATH = `${folder}${delimiter}${PATH}`
  t.teardown(() => {
    process.env.PATH = PATH
  })
}
