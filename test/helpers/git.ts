import { createHash, randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { deflateSync } from 'node:zlib'
import type { Test } from 'tap'
import type { ObjectFormat } from '../../src/domain/commit-id.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import { startSmallProcess } from './small-process.ts'

/** Author and committer of commits. */
const PERSON = 'Test <test@example.org>'
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
export function gitWith(folder: string, input: string | Buffer, ...args: string[]): string {
  runSmall ??= startSmallProcess(ENVIRONMENT)
  const { code, stdout, stderr } = runSmall(folder, ['git', ...args], input)
  if (code !== 0) throw new Error(`git ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout.trim()
}
let runSmall: ReturnType<typeof startSmallProcess> | undefined

/**
 * Replaces a branch of a repository by `count` new commits, and returns their ids, oldest first.
 */
export function createCommits(repository: string, count: number, branch = 'main'): string[] {
  const nonce = randomBytes(8).toString('hex')
  return addCommits(
    repository,
    `refs/heads/${branch}`,
    Math.floor(Date.now() / 1000) - count,
    Array.from({ length: count }, (_, index) => `Commit ${index} of ${nonce}`),
  )
}

/**
 * Adds `count` new commits to a repository, on a branch of their own under `refs/import/`, and
 * returns their ids, oldest first.
 */
export function importCommits(
  repository: string,
  count: number,
  defaultMessage = (index: number, branch: string) => `Commit ${index} of ${branch}`,
): string[] {
  const branch = `refs/import/${randomBytes(8).toString('hex')}`
  const messages = Array.from({ length: count }, (_, index) => defaultMessage(index, branch))
  return addCommits(repository, branch, 1_700_000_000, messages)
}

/** Fewer objects are files of their own, as git leaves those of a small push. */
const PACKED = 100

/**
 * Writes a root commit and its descendants, a second apart. Few of them without git, which would
 * take longer to start.
 */
function addCommits(repository: string, ref: string, time: number, messages: readonly string[]): string[] {
  if (messages.length >= PACKED) return importPack(repository, ref, time, messages)
  const isSha256 = readFileSync(join(repository, 'config'), 'utf8').includes('sha256')
  const write = (kind: string, text: string) =>
    writeObject(join(repository, 'objects'), isSha256 ? 'sha256' : 'sha1', kind, text)
  const tree = write('tree', '')
  const ids: string[] = []
  for (const [index, message] of messages.entries()) {
    const person = `${PERSON} ${time + index} +0000`
    const parent = index === 0 ? '' : `parent ${ids.at(-1)}\n`
    ids.push(write('commit', `tree ${tree}\n${parent}author ${person}\ncommitter ${person}\n\n${message}`))
  }
  const file = join(repository, ref)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${ids.at(-1)}\n`)
  return ids
}

/** Writes an object as a file of its own, unless it is there, and returns its id. */
function writeObject(objects: string, algorithm: string, kind: string, text: string): string {
  const object = Buffer.from(`${kind} ${Buffer.byteLength(text)}\0${text}`)
  const id = createHash(algorithm).update(object).digest('hex')
  const file = join(objects, id.slice(0, 2), id.slice(2))
  if (existsSync(file)) return id
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, deflateSync(object), { mode: 0o444 })
  return id
}

/**
 * Adds commits with these parents to a repository, on a branch of their own under `refs/import/`.
 *
 * @param parents of each commit: the indices of earlier ones, the first parent first
 * @returns their ids
 */
export function importGraph(repository: string, parents: readonly (readonly number[])[]): string[] {
  const branch = `refs/import/${randomBytes(8).toString('hex')}`
  const commits = parents.map(([first, ...others], index) => {
    const from = first === undefined ? [] : [`from :${first + 1}`]
    const lines = [...from, ...others.map((parent) => `merge :${parent + 1}`)]
    const message = `${index} of ${branch}`
    const head = `reset ${branch}\ncommit ${branch}\nmark :${index + 1}\ncommitter ${PERSON} ${1_700_000_000 + index} +0000`
    return `${head}\ndata ${message.length}\n${message}\n${lines.map((line) => `${line}\n`).join('')}\nget-mark :${index + 1}\n`
  })
  return gitWith(repository, commits.join(''), 'fast-import', '--quiet', '--force').split('\n')
}

function importPack(repository: string, ref: string, time: number, messages: readonly string[]): string[] {
  const commits = messages.map(
    (message, index) =>
      `commit ${ref}\nmark :${index + 1}\ncommitter ${PERSON} ${time + index} +0000\n` +
      `data ${Buffer.byteLength(message)}\n${message}\nget-mark :${index + 1}\n`,
  )
  return gitWith(repository, commits.join(''), 'fast-import', '--quiet', '--force').split('\n')
}

const templates = new Map<ObjectFormat, Promise<string>>()

/**
 * Creates an empty bare repository as the server does, by copying one. Starting git takes longer
 * than most tests.
 */
export async function copyBareRepository(place: string, objectFormat: ObjectFormat): Promise<void> {
  const template = templates.get(objectFormat) ?? createTemplate(objectFormat)
  templates.set(objectFormat, template)
  cpSync(await template, place, { recursive: true })
}

async function createTemplate(objectFormat: ObjectFormat): Promise<string> {
  // The end of the run removes it.
  const place = join(mkdtempSync(join(tmpdir(), 'template-')), 'empty.git')
  await createBareRepository(place, objectFormat)
  // What is large in tests is random bytes: to try to compress them takes longer than to send them.
  gitWith(place, '', 'config', 'core.compression', '0')
  return place
}

/**
 * Replaces git by a shell script, in which `$git` is the real one, for this process and until the
 * test ends.
 */
export function replaceGit(t: Test, script: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'git-'))
  const { PATH = '' } = process.env
  const real = PATH.split(delimiter)
    .map((place) => join(place, 'git'))
    .find((file) => existsSync(file))
  writeFileSync(join(folder, 'git'), `#!/bin/sh\ngit=${real}\n${script}\n`, { mode: 0o755 })
  process.env.PATH = `${folder}${delimiter}${PATH}`
  t.teardown(() => {
    process.env.PATH = PATH
    rmSync(folder, { recursive: true })
  })
}
