import { type ChildProcess, spawn } from 'node:child_process'
import { gitEnvironment } from './environment.ts'

/** What git says of an id: the object is a commit, it is another type of object, or it is not there. */
export type Answer = 'commit' | 'other' | 'missing'

/** One object id that git is asked about, and who wants to know. */
export interface Question {
  /** Full lower-case hex id; whoever makes the question has checked it. */
  readonly sha: string
  answered(answer: Answer): void
  /** The process ended before it answered. Without a `reason`, another question was what ended it. */
  lost(reason?: string): void
}

const COMPLAINT_LENGTH = 2000
const COMPACT_AFTER = 4096

/**
 * One `git cat-file --batch-check` process, which answers questions in the order in which they were asked.
 *
 * It runs without `--buffer`: git then writes each answer out at once, while with it the answers would wait until 4 KiB
 * are full or the input ends (asking for a flush takes `--batch-command`, which came with git 2.36).
 *
 * It ends when its standard input does, so also when the server is gone, however that happened.
 */
export class ObjectReader {
  readonly #child: ChildProcess
  readonly #timeout: number
  readonly #onExit: () => void
  #pending: Question[] = []
  #answered = 0
  #line = ''
  #complaint = ''
  #exited = false
  #closed = false
  #killer: NodeJS.Timeout | undefined

  /**
   * @param path absolute path of the git directory
   * @param timeout milliseconds that the process may take to end after `end()`, before it is killed
   * @param onExit called once, when the process has ended or could not be started
   * @throws what `spawn` throws for an invalid argument or for lack of memory
   */
  constructor(path: string, timeout: number, onExit: () => void) {
    this.#timeout = timeout
    this.#onExit = onExit
    // A work tree of our own naming: the one in the repository's configuration may be gone, and git would refuse.
    const args = [
      `--git-dir=${path}`,
      '--work-tree=/',
      'cat-file',
      '--batch-check=%(objectname) %(objecttype)',
    ]
    const child: ChildProcess = spawn('git', args, { cwd: '/', env: gitEnvironment(path), stdio: 'pipe' })
    this.#child = child
    // Without a process there is no `exit`, and for lack of file descriptors no `close` and no streams either.
    child.on('error', (error) => {
      if (child.pid === undefined) this.#close(error.message)
    })
    child.on('exit', () => this.#exit())
    // What it wrote before it ended is still read between `exit` and `close`.
    child.on('close', (code, signal) => this.#close(`git ended with ${signal ?? `code ${code}`}`))
    // An EPIPE says that the process is gone, which `exit` and `close` tell as well.
    child.stdin?.on('error', () => {})
    child.stdout?.setEncoding('latin1').on('data', (chunk: string) => this.#read(chunk))
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.#complaint = (this.#complaint + chunk).slice(-COMPLAINT_LENGTH)
    })
  }

  /** Whether questions wait for an answer. */
  get busy(): boolean {
    return this.#answered < this.#pending.length
  }

  /** Asks all `questions` in one write. Each is either answered or lost, never both. */
  ask(questions: readonly Question[]): void {
    if (this.#closed) {
      for (const question of questions) question.lost('git has ended')
      return
    }
    let text = ''
    for (const question of questions) {
      this.#pending.push(question)
      text += `${question.sha}\n`
    }
    this.#child.stdin?.write(text)
  }

  /** Lets the process answer what it was asked and end then. Nothing may be asked after this. */
  end(): void {
    this.#child.stdin?.end()
    if (!this.#exited) this.#killer ??= setTimeout(() => this.kill(), this.#timeout).unref()
  }

  /** Ends the process at once. What it has not answered is lost. */
  kill(): void {
    this.#child.kill('SIGKILL')
  }

  #read(chunk: string): void {
    const text = this.#line + chunk
    let from = 0
    for (let to = text.indexOf('\n'); to !== -1; to = text.indexOf('\n', from)) {
      const question = this.#pending[this.#answered]
      if (question === undefined) {
        this.kill()
        return
      }
      this.#answered += 1
      question.answered(readAnswer(question.sha, text, from, to))
      from = to + 1
    }
    this.#line = text.slice(from)
    if (!this.busy) {
      this.#pending = []
      this.#answered = 0
    } else if (this.#answered >= COMPACT_AFTER) {
      this.#pending.splice(0, this.#answered)
      this.#answered = 0
    }
  }

  #exit(): void {
    if (this.#exited) return
    this.#exited = true
    clearTimeout(this.#killer)
    this.#onExit()
  }

  #close(end: string): void {
    if (this.#closed) return
    this.#closed = true
    this.#exit()
    const unanswered = this.#pending.slice(this.#answered)
    this.#pending = []
    this.#answered = 0
    const complaint = this.#complaint.trim()
    const first = unanswered[0]
    // In a partial clone git gives up over an object that was left out on purpose: it is not here, and the rest waits.
    if (first !== undefined && complaint.includes(`could not fetch ${first.sha} from promisor remote`)) {
      unanswered.shift()
      first.answered('other')
      for (const question of unanswered) question.lost()
      return
    }
    const reason = complaint === '' ? end : `${end}: ${complaint}`
    for (const question of unanswered) question.lost(reason)
  }
}

/**
 * Reads the line `text[from, to)`. It begins with the id of the object that git found: where that is not the one asked
 * for, git took the name for a branch (64 hex digits in a SHA-1 repository) or for the beginning of a longer id.
 */
function readAnswer(sha: string, text: string, from: number, to: number): Answer {
  if (!text.startsWith(sha, from)) return 'other'
  const found = text.slice(from + sha.length, to)
  if (found === ' commit') return 'commit'
  return found === ' missing' ? 'missing' : 'other'
}
