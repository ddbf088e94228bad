import { type ExecFileSyncOptionsWithStringEncoding, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
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
export function gitWith(folder: string, input: string, ...args: string[]): string {
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

/** Replaces a branch of a repository by `count` new commits, and returns their ids, oldest first. */
export function createCommits(repository: string, count: number, branch = 'main'): string[] {
  const nonce = randomBytes(8).toString('hex')
  return addCommits(
    repository,
    `refs/heads/${branch}`,
    Math.floor(Date.now() / 1000) - count,
    Array.from({ length: count }, (_, index) => `Commit ${index} of ${nonce}`),
  )
}

/** Adds `count` new commits to a repository, on a branch of their own under `refs/import/`, and returns their ids, oldest first. */
export function importCommits(
  repository: string,
  count: number,
  defaultMessage = (index: number, branch: string) => `Commit ${index} of ${branch}`,
): string[] {
  const branch = `refs/import/${randomBytes(8).toString('hex')}`
  const messages = Array.from({ length: count }, (_, index) => defaultMessage(index, branch))
  return addCommits(repository, branch, 1_700_000_000, messages)
}

/** Writes a root commit and its descendants, a second apart, in one process, since many tests begin with commits. */
function addCommits(repository: string, ref: string, time: number, messages: readonly string[]): string[] {
  const commits = messages.map(
    (message, index) =>
      `commit ${ref}\nmark :${index + 1}\ncommitter Test <test@example.org> ${time + index} +0000\n` +
      `data ${Buffer.byteLength(message)}\n${message}\nget-mark :${index + 1}\n`,
  )
  return gitWith(repository, commits.join(''), 'fast-import', '--quiet', '--force').split('\n')
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
