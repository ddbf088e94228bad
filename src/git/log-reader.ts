import { spawn } from 'node:child_process'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable } from './repository.ts'

/** A commit for display. */
export interface Commit {
  sha: string
  author: string
  /** Author date, ISO 8601 in UTC; null if the commit has no valid date. */
  date: string | null
  subject: string
}

/** Limits of one list. */
export interface LogLimits {
  /** Number of commits. */
  count: number
  /** Milliseconds that git may take. */
  timeout: number
}

/** git did not list the commits in time. */
export class LogTimeout extends RepositoryUnavailable {}

const FORMAT = ['%H', '%an', '%aI', '%s'].join('%x00')
/** Maximum number of code points of an author or subject. Longer text is cut. */
const TEXT_LENGTH = 300
/** Bytes that hold one code point more than that. */
const FIELD_LENGTH = 4 * (TEXT_LENGTH + 1)
/** Maximum number of bytes read of git's output. Commits after that are left out. */
const OUTPUT_LENGTH = 32 * 1024 * 1024
const COMPLAINT_LENGTH = 2000

/**
 * Reads the newest commits of the branch that HEAD names. Returns an empty list if the branch has no commits.
 *
 * Messages of any length can be pushed. git has no option to print a prefix of bounded size, so it prints the whole message
 * and the reader keeps the beginning of each field.
 *
 * @param repository `path` is its location, `gitDir` the directory that git is run on: see `gitDirOf`
 * @param signal kills git and rejects with its reason
 * @throws RepositoryUnavailable if the repository's files cannot be opened; LogTimeout
 */
export async function readLog(
  repository: { path: string; gitDir: string },
  limits: LogLimits,
  signal?: AbortSignal,
): Promise<Commit[]> {
  const { path, gitDir } = repository
  const parser = new LogParser()
  const deadline = AbortSignal.timeout(limits.timeout)
  const { failure, complaint } = await runLog(gitDir, limits.count, parser, abortAny(deadline, signal))
  signal?.throwIfAborted()
  if (deadline.aborted) throw new LogTimeout(`git did not list the commits of ${path} in time`)
  if (failure === undefined || parser.isFull) return parser.commits
  if (/unknown revision|bad revision 'HEAD'|does not have any commits/.test(complaint)) return []
  throw new RepositoryUnavailable(`git could not list the commits of ${path}: ${complaint || failure}`)
}

function abortAny(deadline: AbortSignal, signal: AbortSignal | undefined): AbortSignal {
  return signal === undefined ? deadline : AbortSignal.any([deadline, signal])
}

/** Runs `git log`. Returns the reason if git failed, and the end of its standard error. */
function runLog(
  gitDir: string,
  count: number,
  parser: LogParser,
  signal: AbortSignal,
): Promise<{ failure?: string; complaint: string }> {
  return new Promise((resolve) => {
    const form = ['-z', '--no-show-signature', `--max-count=${count}`, `--format=${FORMAT}`]
    const child = spawn('git', ['--git-dir', gitDir, 'log', ...form, 'HEAD', '--'], {
      cwd: '/',
      // git reads a commit as a whole. Only a malicious commit is larger than this.
      env: { ...gitEnvironment(gitDir), GIT_ALLOC_LIMIT: '256m' },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    })
    let complaint = ''
    child.on('error', (error) => {
      // If the process cannot be started there is no `close`.
      if (child.pid === undefined) resolve({ failure: error.message, complaint })
    })
    child.on('close', (code, killedBy) => {
      resolve(code === 0 ? { complaint } : { failure: `it ended with ${killedBy ?? code}`, complaint })
    })
    child.stdout?.on('data', (chunk: Buffer) => {
      parser.push(chunk)
      if (parser.isFull) child.kill('SIGKILL')
    })
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      complaint = (complaint + chunk).slice(-COMPLAINT_LENGTH).trim()
    })
  })
}

/** Splits git's output into commits. Every field ends with NUL, which no field can contain. */
class LogParser {
  readonly commits: Commit[] = []
  readonly #field = Buffer.alloc(FIELD_LENGTH)
  /** Number of bytes kept of the current field. */
  #length = 0
  #fields: string[] = []
  #received = 0

  /** Whether the maximum number of bytes was read. */
  get isFull(): boolean {
    return this.#received >= OUTPUT_LENGTH
  }

  push(chunk: Buffer): void {
    if (this.isFull) return
    this.#received += chunk.length
    let from = 0
    for (let to = chunk.indexOf(0); to !== -1; to = chunk.indexOf(0, from)) {
      this.#append(chunk, from, to)
      this.#endField()
      from = to + 1
    }
    this.#append(chunk, from, chunk.length)
    // The subject is the last field, and its beginning was read.
    if (this.isFull && this.#fields.length === 3) this.#endField()
  }

  #append(chunk: Buffer, from: number, to: number): void {
    this.#length += chunk.copy(this.#field, this.#length, from, to)
  }

  #endField(): void {
    this.#fields.push(cut(this.#field.toString('utf8', 0, this.#length)))
    this.#length = 0
    if (this.#fields.length < 4) return
    const [sha = '', author = '', date = '', subject = ''] = this.#fields
    this.commits.push({ sha, author, date: readDate(date), subject })
    this.#fields = []
  }
}

function cut(text: string): string {
  if (text.length <= TEXT_LENGTH) return text
  const points = Array.from(text)
  return points.length <= TEXT_LENGTH ? text : `${points.slice(0, TEXT_LENGTH - 1).join('')}…`
}

function readDate(text: string): string | null {
  const moment = Date.parse(text)
  return Number.isNaN(moment) ? null : new Date(moment).toISOString()
}
