import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { startSmallProcesses } from '../helpers/small-process.ts'
import { pushBody } from './raw.ts'

export interface GitResult {
  code: number
  stdout: string
  stderr: string
}

export interface GitOptions {
  /** Sent with every request, without waiting for a 401. */
  authorization?: string
  /** Returned by a credential helper when the server asks. */
  credential?: { username: string; password: string }
  config?: Record<string, string>
  env?: Record<string, string>
  /**
   * Makes the client the leader of a process group, so that it can be killed with all its children.
   */
  detached?: boolean
  /** Leaves the processors to the server, like a client on another machine. */
  isRemote?: boolean
  /** Standard input. */
  input?: string | Uint8Array
}

/** Starts a git client without the user's configuration. Passes secrets only in its environment. */
export function spawnGit(folder: string, args: readonly string[], options: GitOptions = {}): ChildProcess {
  const [program = '', ...all] = programOf(args, options)
  return spawn(program, all, {
    cwd: folder,
    detached: options.detached ?? false,
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: environmentOf(options),
  })
}

function programOf(args: readonly string[], { isRemote }: GitOptions): string[] {
  return [...(isRemote ? ['nice', '-n', '19'] : []), 'git', ...args]
}

function environmentOf({ authorization, credential, config, env }: GitOptions) {
  const helper = '!f() { echo "username=$TEST_USERNAME"; echo "password=$TEST_PASSWORD"; }; f'
  const settings = Object.entries({
    'gc.auto': '0',
    // As in the repositories of the server.
    'core.compression': '0',
    // With 0, the default, git 2.55 waits as long as a 429 says if it follows a 401.
    'http.maxRetries': '1',
    ...(authorization !== undefined && { 'http.extraHeader': `Authorization: ${authorization}` }),
    ...(credential && { 'credential.helper': helper }),
    ...config,
  })
  return {
    PATH: process.env.PATH,
    HOME: '/nonexistent',
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_AUTHOR_NAME: 'Test',
    GIT_AUTHOR_EMAIL: 'test@example.org',
    GIT_COMMITTER_NAME: 'Test',
    GIT_COMMITTER_EMAIL: 'test@example.org',
    ...(credential && { TEST_USERNAME: credential.username, TEST_PASSWORD: credential.password }),
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
    ...env,
  }
}

/** Runs a git client without blocking the server, which runs in this process. */
export async function tryGit(
  folder: string,
  args: readonly string[],
  options: GitOptions = {},
): Promise<GitResult> {
  runSmall ??= startSmallProcesses()
  const program = programOf(args, options)
  const { code, stdout, stderr } = await runSmall(
    folder,
    program,
    environmentOf(options),
    options.input ?? '',
  )
  return { code, stdout: stdout.trim(), stderr }
}
let runSmall: ReturnType<typeof startSmallProcesses> | undefined

/** Runs a git client and returns its output. Throws if it fails. */
export async function git(
  folder: string,
  args: readonly string[],
  options: GitOptions = {},
): Promise<string> {
  const { code, stdout, stderr } = await tryGit(folder, args, options)
  if (code !== 0) throw new Error(`git ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout
}

/** Creates a folder that is removed when the test ends. */
export function workFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'git-client-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

/** Creates a checkout with one commit and `url` as its remote `origin`. */
export async function createCheckout(t: Test, url: string, objectFormat = 'sha1'): Promise<string> {
  const folder = workFolder(t)
  await git(folder, ['init', '--quiet', `--object-format=${objectFormat}`, '--initial-branch=main'])
  const remote = `[remote "origin"]\n\turl = ${url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n`
  appendFileSync(join(folder, '.git/config'), remote)
  await commit(folder)
  return folder
}

/**
 * Commits a new file of `size` incompressible bytes to the current branch and returns the commit's
 * id. Changes neither the index nor the work tree, so that one process is enough.
 */
export async function commit(folder: string, size = 20): Promise<string> {
  const branch = branchOf(folder)
  const hasParent = existsSync(join(folder, '.git', branch))
  const head = [
    `commit ${branch}`,
    'mark :1',
    'committer Test <test@example.org> now',
    'data 6\nChange',
    ...(hasParent ? [`from ${branch}^0`] : []),
    `M 100644 inline file-${randomBytes(4).toString('hex')}`,
    `data ${size}\n`,
  ]
  const input = Buffer.concat([
    Buffer.from(head.join('\n')),
    randomBytes(size),
    Buffer.from('\nget-mark :1\n'),
  ])
  const options = ['--quiet', '--date-format=now', '--cat-blob-fd=1']
  return git(folder, ['fast-import', ...options], { input, config: { 'fastimport.unpackLimit': '1' } })
}

/** Returns the id of the latest commit of a checkout, whose branch is a file. */
export function headOf(folder: string): string {
  return readFileSync(join(folder, '.git', branchOf(folder)), 'utf8').trim()
}

/** Returns the full name of the current branch of a checkout. */
function branchOf(folder: string): string {
  return readFileSync(join(folder, '.git/HEAD'), 'utf8').replace('ref: ', '').trim()
}

/** Returns the value of an `Authorization` header. */
export function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/**
 * Returns the body of a push of a branch, by default `raw`, with so many bytes of incompressible
 * data.
 */
export async function packedPush(t: Test, url: string, size = 1_000_000, branch = 'raw') {
  const checkout = await createCheckout(t, url)
  const id = await commit(checkout, size)
  const child = spawnGit(checkout, ['pack-objects', '--stdout', '--revs', '--quiet'], { input: `${id}\n` })
  const chunks: Buffer[] = []
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stdin?.end(`${id}\n`)
  await once(child, 'close')
  const command = `${'0'.repeat(40)} ${id} refs/heads/${branch}\0 report-status`
  return { checkout, id, bytes: pushBody([command], '', Buffer.concat(chunks)) }
}
