import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { basic, commit, git } from '../../git-http/client.ts'
import { Disk } from './disk.ts'
import { now, readTrace, startTraced, type Traced } from './trace.ts'

/** Something that must be true after a power cut, once it was acknowledged. */
export type Promised =
  | { kind: 'user'; name: string }
  | { kind: 'repository'; name: string }
  /** @property until when somebody asked for the ref's deletion */
  | { kind: 'ref'; repository: string; ref: string; commit: string | null; until?: number }
  /** The branch has reached this commit. */
  | { kind: 'main'; repository: string; commit: string }
  | { kind: 'report'; repository: string; sha: string; description: string }
  /**
   * What a folder of backups, or the place where it was restored, contains: of each repository, its
   * refs by id.
   */
  | { kind: 'backup' | 'restore'; folder: string; descriptions: string[]; refs: Record<string, string> }

/** A request to the server or a command, from its beginning until it was answered. */
export interface Step {
  name: string
  start: number
  /** The recording in which the answer is found, as the first action that `answers`. */
  run: string
  answers(action: Traced): boolean
  promises: Promised[]
}

const root = resolve(import.meta.dirname, '../../..')
const IDLE = 5_000

/** Runs commands and a server, all traced, and remembers what they promised. */
class Workload {
  readonly steps: Step[] = []
  readonly #folder: string
  readonly #traces: string
  readonly #runs: { name: string; child: ChildProcess }[] = []
  #authorization = ''
  #token = ''
  #url = ''
  #pushes = 0
  #reports = 0

  constructor(folder: string, traces: string) {
    this.#folder = folder
    this.#traces = traces
  }

  async run(): Promise<Traced[]> {
    await this.#cli([{ kind: 'user', name: 'owner' }], 'user', 'create', 'owner')
    this.#token = await this.#cli([], 'token', 'create', 'owner')
    this.#authorization = basic('x', this.#token)
    await this.#create('owner/one')
    await this.#cli([], 'repo', 'import', 'owner/gc', join(this.#folder, 'gc.git'))
    await this.#cli([], 'repo', 'import', 'owner/checkout', join(this.#folder, 'checkout'))
    const server = await this.#serve()

    const one = await this.#checkout('owner/one')
    await this.#pushAndReport('owner/one', one)
    await setTimeout(IDLE)
    for (let count = 0; count < 5; count++) await this.#pushAndReport('owner/one', one)
    await this.#backup()
    await this.#create('owner/two')
    const two = await this.#checkout('owner/two')
    await this.#grow(two, 150)
    await this.#pushWhileReporting('owner/two', two)
    await this.#grow(two, 120)
    await this.#pushAndReport('owner/two', two)
    await setTimeout(IDLE)
    await Promise.all([this.#pushAndReport('owner/one', one), this.#pushAndReport('owner/two', two)])
    await this.#backup()
    await this.#remove('owner/one', one)

    const imported = await this.#checkout('owner/checkout')
    for (let count = 0; count < 2; count++) await this.#pushAndReport('owner/checkout', imported)
    const gc = await this.#checkout('owner/gc')
    for (let count = 0; count < 5; count++) await this.#pushAndReport('owner/gc', gc)
    const sha = await git(one, ['rev-parse', 'HEAD'])
    await Promise.all(Array.from({ length: 40 }, () => this.#report('owner/one', sha)))
    await this.#create('owner/three')
    server.kill('SIGTERM')
    await once(server, 'exit')
    await this.#backup()
    await this.#restore()

    const actions: Traced[] = []
    for (const { name, child } of this.#runs)
      actions.push(...(await readTrace(this.#traces, name, child.pid ?? 0, root)))
    return actions.sort((one, other) => one.start - other.start)
  }

  /**
   * Repositories to import: one that collects garbage at almost every push, and a checkout, which
   * keeps reflogs.
   */
  async prepare(): Promise<void> {
    mkdirSync(join(this.#folder, 'backups'))
    await git(this.#folder, ['init', '--quiet', '--bare', '--initial-branch=main', 'gc.git'])
    for (const setting of ['receive.unpackLimit=1', 'gc.autoPackLimit=1'])
      await git(join(this.#folder, 'gc.git'), ['config', ...setting.split('=')])
    await git(this.#folder, ['init', '--quiet', '--initial-branch=work', 'checkout'])
    await commit(join(this.#folder, 'checkout'))
  }

  /** Ends what is still running. */
  stop(): void {
    for (const { child } of this.#runs) if (child.exitCode === null) child.kill('SIGKILL')
  }

  #start(name: string, dataDir: string, ...args: string[]): ChildProcess {
    const env = {
      PATH: process.env.PATH,
      DATA_DIR: join(this.#folder, dataDir),
      PORT: '0',
      LOG_LEVEL: 'warn',
    }
    const child = startTraced(this.#traces, name, [process.execPath, ...args], { cwd: root, env })
    this.#runs.push({ name, child })
    child.stderr?.setEncoding('utf8')
    return child
  }

  async #serve(): Promise<ChildProcess> {
    const child = this.#start('server', 'data', 'src/server.ts')
    child.stderr?.pipe(process.stderr)
    assert(child.stdout)
    const lines = createInterface({ input: child.stdout })
    for await (const line of lines) {
      const [, url] = /^Listening on (.*)$/.exec(line) ?? []
      if (url === undefined) continue
      this.#url = url
      // What it logs later is of interest if something fails.
      child.stdout.pipe(process.stderr)
      return child
    }
    throw new Error('the server did not start')
  }

  async #cli(promises: Promised[], ...args: string[]): Promise<string> {
    const name = `${args[0]}-${this.#runs.length}`
    const start = now()
    const child = this.#start(name, args[0] === 'restore' ? 'place' : 'data', 'src/cli/main.ts', ...args)
    assert(child.stdout && child.stderr)
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ])
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
    const output = stdout.trim()
    const answers = (action: Traced) =>
      action.kind === 'exit' || (action.kind === 'say' && output !== '' && action.text.trim() === output)
    this.steps.push({ name, start, run: name, answers, promises })
    return output
  }

  async #create(name: string): Promise<void> {
    await this.#cli([{ kind: 'repository', name }], 'repo', 'create', name)
  }

  async #backup(): Promise<void> {
    const folder = join(this.#folder, 'backups')
    const descriptions = this.steps.flatMap(({ promises }) =>
      promises.flatMap((promise) => (promise.kind === 'report' ? [promise.description] : [])),
    )
    const refs: Record<string, string> = {}
    const repositories = join(this.#folder, 'data/repositories')
    for (const name of readdirSync(repositories))
      refs[name] = await git(join(repositories, name), ['for-each-ref'])
    await this.#cli([{ kind: 'backup', folder, descriptions, refs }], 'backup', folder)
  }

  /** Restores the latest backup into another place. */
  async #restore(): Promise<void> {
    const backup = this.steps.flatMap(({ promises }) => promises).findLast(({ kind }) => kind === 'backup')
    assert(backup?.kind === 'backup')
    const folder = join(this.#folder, 'place')
    const promise: Promised = { ...backup, kind: 'restore', folder }
    await this.#cli([promise], 'restore', backup.folder)
  }

  async #checkout(repository: string): Promise<string> {
    const folder = join(this.#folder, '..', repository.replace('/', '-'))
    await git(resolve(folder, '..'), ['init', '--quiet', '--initial-branch=main', folder])
    await git(folder, ['remote', 'add', 'origin', `${this.#url}/${repository}.git`])
    return folder
  }

  /** Adds commits with a file each, more than git unpacks. */
  async #grow(checkout: string, count: number): Promise<void> {
    const parent = await git(checkout, ['rev-parse', '--verify', '--quiet', 'HEAD']).catch(() => '')
    const commits = Array.from({ length: count }, (_, index) => [
      `commit refs/heads/main\ncommitter A <a@example.org> ${1_700_000_000 + index} +0000\ndata 1\n.\n`,
      index === 0 && parent !== '' ? `from ${parent}\n` : '',
      `M 100644 inline file-${index}\ndata 12000\n${randomBytes(6000).toString('hex')}\n`,
    ])
    await git(checkout, ['fast-import', '--quiet', '--force'], { input: commits.flat().join('') })
    await git(checkout, ['reset', '--quiet', '--hard'])
  }

  /**
   * Pushes a new commit to `main`, a new branch in a folder of its own, and a tag, with one
   * request.
   */
  async #push(repository: string, checkout: string): Promise<string> {
    const id = await commit(checkout)
    const number = ++this.#pushes
    const branch = `refs/heads/topic-${number}/branch`
    const tag = `refs/tags/v${number}`
    const start = now()
    const refs = ['HEAD:refs/heads/main', `HEAD:${branch}`, `HEAD:${tag}`]
    await git(checkout, ['push', '--quiet', 'origin', ...refs], { authorization: this.#authorization })
    this.steps.push({
      name: `push ${number}`,
      start,
      run: 'server',
      answers: (action) => action.kind === 'say' && action.text.includes(`ok ${branch}\n`),
      promises: [
        { kind: 'main', repository, commit: id },
        { kind: 'ref', repository, ref: branch, commit: id },
        { kind: 'ref', repository, ref: tag, commit: id },
      ],
    })
    return id
  }

  async #pushAndReport(repository: string, checkout: string): Promise<void> {
    const sha = await this.#push(repository, checkout)
    await this.#report(repository, sha)
    await setTimeout(100)
  }

  /** Reports as soon as git has the commit, which may be before the push is answered. */
  async #pushWhileReporting(repository: string, checkout: string): Promise<void> {
    const sha = await git(checkout, ['rev-parse', 'HEAD'])
    await Promise.all([this.#push(repository, checkout), this.#report(repository, sha)])
  }

  async #remove(repository: string, checkout: string): Promise<void> {
    const promised = this.steps
      .flatMap(({ promises }) => promises)
      .find((promise) => promise.kind === 'ref' && promise.repository === repository)
    assert(promised?.kind === 'ref')
    const { ref } = promised
    const start = now()
    promised.until = start
    await git(checkout, ['push', '--quiet', 'origin', `:${ref}`], { authorization: this.#authorization })
    this.steps.push({
      name: 'deletion',
      start,
      run: 'server',
      answers: ({ start: at, ...action }) =>
        at >= start && action.kind === 'say' && action.text.includes(`ok ${ref}\n`),
      promises: [{ kind: 'ref', repository, ref, commit: null }],
    })
  }

  async #report(repository: string, sha: string): Promise<void> {
    const description = `report ${++this.#reports}`
    const body = JSON.stringify({ state: 'success', context: `ci/${this.#reports}`, description })
    const start = now()
    for (;;) {
      const answer = await fetch(`${this.#url}/api/v1/repos/${repository}/statuses/${sha}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
        body,
      })
      await answer.text()
      if (answer.status === 201) break
      assert.equal(answer.status, 404)
    }
    this.steps.push({
      name: description,
      start,
      run: 'server',
      answers: (action) => action.kind === 'say' && action.text.includes(`"description":"${description}"`),
      promises: [{ kind: 'report', repository, sha, description }],
    })
  }
}

/** What a server and commands did and promised. */
export interface Recorded {
  /** In the order in which they began. */
  actions: Traced[]
  steps: Step[]
  /** The folder as it was before. */
  disk: Disk
}

/**
 * Runs a server and commands, and records what they do and promise.
 *
 * @param folder empty; all that is recorded lies below it
 * @param traces where strace writes
 */
export async function record(folder: string, traces: string): Promise<Recorded> {
  const workload = new Workload(folder, traces)
  try {
    await workload.prepare()
    const disk = new Disk(folder)
    const actions = await workload.run()
    return { actions, steps: workload.steps, disk }
  } finally {
    workload.stop()
  }
}
