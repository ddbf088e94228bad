import type { ChildProcess } from 'node:child_process'
import { ANY_WORK_TREE, startGit } from '../run-git.ts'

/** git's answer: the object is a commit, it has another type, or it does not exist. */
export type Answer = 'commit' | 'other' | 'missing'

/** A question to git about one object id, and the callbacks for the answer. */
export interface Question {
  /** Full lower-case hex id, validated by the caller. */
  readonly sha: string
  answered(answer: Answer): void
  /** Called if the process ended before it answered. `reason` is missing if another question ended the process. */
  lost(reason?: string): void
}

/**
 * A `git cat-file --batch-check` process, which answers questions in order.
 *
 * It runs without `--buffer`, so git writes each answer at once. With it, git would buffer 4 KiB of answers.
 *
 * The process ends with its standard input, so also when the server dies.
 */
export class ObjectReader {
  readonly #child: ChildProcess
  readonly #timeout: number
  readonly #onExit: () => void
  /** Questions without an answer, in order. */
  #pending: Question[] = []
  #line = ''
  #exited = false
  #closed = false
  #killer: NodeJS.Timeout | undefined

  /**
   * @param path absolute path of the git directory
   * @param timeout milliseconds in which the process must end after `end()`, before it is killed
   * @param onExit called once, when the process has ended or could not be started
   * @throws the error of `spawn` for an invalid argument or lack of memory
   */
  constructor(path: string, timeout: number, onExit: () => void) {
    this.#timeout = timeout
    this.#onExit = onExit
    const args = [`--git-dir=${path}`, ANY_WORK_TREE, 'cat-file', '--batch-check=%(objectname) %(objecttype)']
    const { child, ended } = startGit(args, { stdio: 'pipe' })
    this.#child = child
    // Output that was written before the end is still read afterwards.
    child.on('exit', () => this.#exit())
    ended.then(({ code, reason }) => this.#close(`git ended with code ${code}: ${reason}`))
    child.stdout?.setEncoding('latin1').on('data', (chunk: string) => this.#read(chunk))
  }

  /** Whether questions are unanswered. */
  get busy(): boolean {
    return this.#pending.length > 0
  }

  /** Asks all questions in one write. Each is either answered or lost, never both. */
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

  /** Ends the process after it has answered all questions. Do not ask afterwards. */
  end(): void {
    this.#child.stdin?.end()
    if (!this.#exited) this.#killer ??= setTimeout(() => this.kill(), this.#timeout).unref()
  }

  /** Kills the process. Unanswered questions are lost. */
  kill(): void {
    this.#child.kill('SIGKILL')
  }

  #read(chunk: string): void {
    const text = this.#line + chunk
    let from = 0
    for (let to = text.indexOf('\n'); to !== -1; to = text.indexOf('\n', from)) {
      const question = this.#pending.shift()
      if (question === undefined) {
        this.kill()
        return
      }
      question.answered(readAnswer(question.sha, text, from, to))
      from = to + 1
    }
    this.#line = text.slice(from)
  }

  #exit(): void {
    if (this.#exited) return
    this.#exited = true
    clearTimeout(this.#killer)
    this.#onExit()
  }

  #close(reason: string): void {
    if (this.#closed) return
    this.#closed = true
    this.#exit()
    const unanswered = this.#pending
    this.#pending = []
    const first = unanswered[0]
    // In a partial clone git fails on an object that was omitted by the filter. Only that question is answered.
    if (first !== undefined && reason.includes(`could not fetch ${first.sha} from promisor remote`)) {
      unanswered.shift()
      first.answered('other')
      for (const question of unanswered) question.lost()
      return
    }
    for (const question of unanswered) question.lost(reason)
  }
}

/**
 * Parses the line `text[from, to)`. It begins with the id of the object that git found. If that is another id, git has
 * resolved `sha` as a branch (64 hex digits in a SHA-1 repository) or as the prefix of a longer id.
 */
function readAnswer(sha: string, text: string, from: number, to: number): Answer {
  if (!text.startsWith(sha, from)) return 'other'
  const found = text.slice(from + sha.length, to)
  if (found === ' commit') return 'commit'
  return found === ' missing' ? 'missing' : 'other'
}
