import type { ChildProcess } from 'node:child_process'
import type { OpenedRepository } from '../opened-repository.ts'
import { startGit } from '../run-git.ts'

/** git's answer about an object. */
export interface Answer {
  /**
   * Of what git found. It may not be the id that was asked about: git has resolved that as a branch
   * (64 hex digits in a SHA-1 repository) or as the prefix of a longer id.
   */
  id: string
  /** Its type; `missing` if there is no such object. */
  type: string
}

/**
 * A `git cat-file --batch-check` process, which answers questions in order.
 *
 * It runs without `--buffer`, so git writes each answer at once. With it, git would buffer 4 KiB of
 * answers.
 *
 * The process ends with its standard input, so also when the server dies.
 */
export class ObjectReader {
  /** State of the repository's packs before the process was started. */
  readonly packs: string
  /** Why the process has ended; undefined before. */
  ended: string | undefined
  readonly #started: Promise<ChildProcess>
  readonly #timeout: number
  #asked = 0
  #answers: Answer[] = []
  #line = ''
  #settle = () => {}
  #killer: NodeJS.Timeout | undefined

  /**
   * @param slots calls a function that runs the process, when there may be one more
   * @param timeout milliseconds in which the process must end after `end()`, before it is killed
   */
  constructor(
    repository: OpenedRepository,
    packs: string,
    slots: (run: () => Promise<void>) => Promise<void>,
    timeout: number,
  ) {
    this.packs = packs
    this.#timeout = timeout
    const { promise, resolve, reject } = Promise.withResolvers<ChildProcess>()
    this.#started = promise
    const args = ['cat-file', '--batch-check=%(objectname) %(objecttype)']
    const run = async () => {
      const { child, ended } = startGit(repository, args, { stdio: 'pipe' })
      child.stdout?.setEncoding('latin1').on('data', (chunk: string) => this.#read(chunk))
      resolve(child)
      const { code, reason } = await ended
      clearTimeout(this.#killer)
      this.ended ??= `git ended with code ${code}: ${reason}`
      this.#settle()
    }
    slots(run).catch(reject)
  }

  /**
   * Asks about full lower-case hex ids, or what they lead to, one call at a time. The answers end with
   * the process.
   */
  async ask(names: readonly string[]): Promise<Answer[]> {
    const child = await this.#started
    this.#asked = names.length
    this.#answers = []
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#settle = resolve
    if (this.ended === undefined) child.stdin?.write(`${names.join('\n')}\n`)
    else resolve()
    await promise
    return this.#answers
  }

  /** Ends the process after it has answered all questions. Do not ask afterwards. */
  end(): void {
    this.#whenStarted((child) => {
      child.stdin?.end()
      if (this.ended === undefined) this.#killer ??= setTimeout(() => this.kill(), this.#timeout).unref()
    })
  }

  /**
   * Kills the process. It answers no more questions, even if it cannot end because it waits for a
   * disk.
   */
  kill(): void {
    this.ended ??= 'git was killed'
    this.#whenStarted((child) => child.kill('SIGKILL'))
    this.#settle()
  }

  #whenStarted(use: (child: ChildProcess) => void): void {
    // `ask` reports why it could not be started.
    this.#started.then(use, () => {})
  }

  #read(chunk: string): void {
    const lines = (this.#line + chunk).split('\n')
    this.#line = lines.pop() ?? ''
    for (const line of lines) {
      const [id = '', type = ''] = line.split(' ')
      if (this.#answers.length === this.#asked) this.kill()
      else this.#answers.push({ id, type })
    }
    if (this.#answers.length === this.#asked) this.#settle()
  }
}
