import { Transform } from 'node:stream'
import { BRANCHES, TAGS } from '../../domain/ref-names.ts'
import { type RefRule, refRuleMatcher } from '../../domain/ref-rules.ts'
import type { Obstacle, RefUpdate, RefusalKind } from '../../domain/ref-updates.ts'
import { ServiceError } from '../../errors.ts'
import { replaceHidden } from '../../util/replace-characters.ts'
import { truncate } from '../../util/truncate.ts'
import type { PushRequest } from './commands.ts'
import { lengthOfPacket, MAX_CONTENT, PacketReader, packet } from './pkt-line.ts'

/**
 * Channels of an answer with the capability `side-band-64k`. Without it, no content begins with
 * such a byte.
 */
const REPORT = 1
const PROGRESS = 2
const ERROR = 3
/** Bytes of names and reasons in the report of a refused push. */
const MAX_REFUSAL = 64 * 1024
/** Reasons that git gives (builtin/receive-pack.c; refs.c since 2.50), which it does not translate here. */
const REASONS_OF_GIT: ReadonlyMap<string, RefusalKind> = new Map([
  ['atomic push failure', 'atomic'],
  ['atomic transaction failed', 'atomic'],
  ['failed to update ref', 'changed'],
  ['incorrect old value provided', 'changed'],
  ['reference already exists', 'changed'],
  ['reference does not exist', 'changed'],
  ['refname conflict', 'changed'],
  ['non-fast-forward', 'non-fast-forward'],
  ['deletion of the current branch prohibited', 'default branch'],
  ['branch is currently checked out', 'settings'],
  ['deletion prohibited', 'settings'],
  ['deny deleting a hidden ref', 'settings'],
  ['deny updating a hidden ref', 'settings'],
  ['bad pack', 'objects'],
  ['missing necessary objects', 'objects'],
  ['shallow error', 'objects'],
  ['shallow update not allowed', 'objects'],
  ['unpacker error', 'objects'],
])
/** Maximum number of refs for which it is said what to do. */
const MAX_ADVISED = 3
const MAX_NAME = 100

/**
 * Reads git's report of a push (gitprotocol-pack(5)) from its answer: "unpack ok", "ok REF" or "ng
 * REF REASON" for each command, in their order, flush. It is git's own statement of what it
 * updated, so no other push can be mistaken for this one.
 */
export class PushReport {
  readonly #commands: readonly RefUpdate[]
  readonly #updated: RefUpdate[] = []
  readonly #report = new PacketReader((line) => this.#takeLine(line))
  readonly #answer = new PacketReader((content) => this.#takePacket(content))
  #reported = 0
  /** The refs that git has refused so far, and why, both in Latin-1. */
  readonly refused: { ref: string; reason: string }[] = []
  /**
   * Whether the answer contains more than progress and empty packets, which keep the connection
   * alive.
   */
  isBegun = false
  /** Bytes of the packets before that. */
  start = 0

  constructor(commands: readonly RefUpdate[]) {
    this.#commands = commands
  }

  /** Takes the next bytes of the body of git's answer. */
  read(chunk: Buffer): void {
    try {
      this.#answer.read(chunk)
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      // Malformed: the reader ignores what follows.
      this.isBegun = true
    }
  }

  /** The updates that git made; null unless it has reported all commands. */
  get updated(): RefUpdate[] | null {
    return this.#reported === this.#commands.length ? this.#updated : null
  }

  #takePacket(content: Buffer | null): boolean {
    const channel = content?.[0] ?? 0
    if (channel !== PROGRESS && !(channel === REPORT && content?.length === 1)) this.isBegun = true
    if (!this.isBegun) this.start += lengthOfPacket(content)
    if (channel === REPORT) this.#report.read(content?.subarray(1) ?? Buffer.alloc(0))
    else if (channel === 0 || channel > ERROR) this.#takeLine(content)
    return content !== null
  }

  #takeLine(content: Buffer | null): boolean {
    const line = content?.toString('latin1').replace(/\n$/, '') ?? ''
    const command = this.#commands[this.#reported]
    if (!command) return content !== null
    const { ref } = command
    const refusal = `ng ${ref} `
    if (line === `ok ${ref}`) this.#updated.push(command)
    else if (line.startsWith(refusal)) this.refused.push({ ref, reason: line.slice(refusal.length) })
    else return content !== null
    this.#reported++
    return content !== null
  }
}

/** Returns the kind of a reason that git has given by itself. */
export function kindOfGit(reason: string): RefusalKind {
  return REASONS_OF_GIT.get(reason) ?? 'other'
}

/** A push whose answer is sent. */
interface ReportedPush {
  report: PushReport
  /** Packets to send before the report. */
  advice: Buffer
  /** Waits until what git has updated is on disk. */
  sync(): Promise<void>
}

/**
 * Returns a stream that delays the answer to a push, from its report on, until `sync` has completed. So
 * no push is acknowledged that a power cut can undo. Progress is passed on at once, in whole packets.
 * git reports after it has moved all objects and refs into place (builtin/receive-pack.c), so one sync
 * is enough; `sync` may be called more than once.
 *
 * @param push its report has read what is written to the stream
 * @param failure returns the report if git gives none, otherwise null
 */
export function syncBeforeReport(push: ReportedPush, failure: () => Promise<Buffer> | null): Transform {
  const { report } = push
  let passed = 0
  let isReporting = false
  let part: Buffer = Buffer.alloc(0)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (isReporting) {
        push.sync().then(() => done(null, chunk), done)
        return
      }
      const bytes = Buffer.concat([part, chunk])
      const early = bytes.subarray(0, report.start - passed)
      const rest = bytes.subarray(early.length)
      this.push(early)
      passed += early.length
      // What was read may be ahead of what was written.
      isReporting = report.isBegun && rest.length > 0
      part = isReporting ? Buffer.alloc(0) : rest
      if (isReporting) push.sync().then(() => done(null, Buffer.concat([push.advice, rest])), done)
      else done()
    },
    // A report of a failure acknowledges nothing.
    flush: (done) => void (failure() ?? push.sync().then(() => part)).then((rest) => done(null, rest), done),
  })
}

/**
 * Returns a stream that delays the end of the list of refs at the start of a push until `sync` has
 * completed. If the list already contains the refs to push, the client reports "Everything
 * up-to-date", which is an acknowledgement too.
 */
export function syncBeforeEnd(sync: () => Promise<void>): Transform {
  let last: Buffer = Buffer.alloc(0)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      done(null, last)
      last = chunk
    },
    flush: (done) => void sync().then(() => done(null, last), done),
  })
}

/** A packet that says nothing, with side-band. */
export const EMPTY_PACKET = packet(String.fromCharCode(REPORT))

/** Returns a packet that git prints after `remote:`, with side-band. */
export function progress(text: string): Buffer {
  const content = Buffer.from(`${text}\n`).toString('latin1')
  return Buffer.from(packet(String.fromCharCode(PROGRESS) + content), 'latin1')
}

/**
 * Returns the answer that git would give if it refused all commands. If that is long, only the last
 * one is named, in the last line that a client prints about refs: answers that nobody reads stay in
 * memory.
 */
export function reportRefusal({ commands, sideband }: PushRequest, reason: string): Buffer {
  // The rest of the report is Latin-1, in which this is UTF-8.
  const text = Buffer.from(reason).toString('latin1')
  const length = commands.reduce((sum, { ref }) => sum + ref.length + text.length, 0)
  const namedCommands = length > MAX_REFUSAL ? commands.slice(-1) : commands
  const lines = ['unpack ok\n', ...namedCommands.map(({ ref }) => `ng ${ref} ${text}\n`)]
  const report = `${lines.map(packet).join('')}0000`
  if (!sideband) return Buffer.from(report, 'latin1')
  const packets: string[] = []
  for (let start = 0; start < report.length; start += MAX_CONTENT - 1)
    packets.push(packet(String.fromCharCode(REPORT) + report.slice(start, start + MAX_CONTENT - 1)))
  return Buffer.from(`${packets.join('')}0000`, 'latin1')
}

/** An update that a rule has refused. */
export interface RuledOut {
  /** The full name of the branch or tag with the rule. */
  ref: string
  obstacle: Obstacle
  /** The commit whose reports count. */
  sha: string
}

/**
 * Returns lines for the people who pushed: what to do next about each refused ref, and the page to
 * look at.
 *
 * @param rules of the repository
 * @param url of the repository's page
 */
export function adviceOf(ruledOut: readonly RuledOut[], rules: readonly RefRule[], url: string): string[] {
  const lines = ruledOut.slice(0, MAX_ADVISED).flatMap(({ ref, obstacle, sha }) => {
    const name = nameOf(ref)
    const isDeletion = obstacle === 'branch deleted' || obstacle === 'tag deleted'
    const page = isDeletion ? `${url}/settings/checks` : `${url}/commits/${sha}`
    const step = `${name}: ${nextStep(ref, name, obstacle, rules)}`
    return obstacle === 'tag of no commit' ? [step] : [step, `  ${page}`]
  })
  return withMore(lines, ruledOut.length)
}

/**
 * Returns lines for people who may bypass the rules that their push does not meet: nobody else is
 * told of it, and who may does not know otherwise that a check was not met.
 */
export function bypassLines(bypassed: readonly { ref: string; reason: string }[]): string[] {
  const lines = bypassed
    .slice(0, MAX_ADVISED)
    .map(({ ref, reason }) => `${nameOf(ref)}: you may bypass its rule: ${reason}`)
  return withMore(lines, bypassed.length)
}

function withMore(lines: string[], total: number): string[] {
  const more = total - MAX_ADVISED
  return more > 0 ? [...lines, `And ${more} more.`] : lines
}

/** Returns what to call a branch or tag. */
function nameOf(ref: string): string {
  const folder = [BRANCHES, TAGS].find((folder) => ref.startsWith(folder)) ?? ''
  return truncate(replaceHidden(ref.slice(folder.length)), MAX_NAME)
}

function nextStep(ref: string, name: string, obstacle: Obstacle, rules: readonly RefRule[]): string {
  switch (obstacle) {
    case 'checks':
      if (ref.startsWith(TAGS)) return 'push the commit to a branch, and the tag when its checks have passed'
      return `push the commit to ${otherBranch(name, rules)}, and here when its checks have passed`
    case 'failed checks':
      return 'mend it in a new commit, or have the failed check run again'
    case 'branch forced':
      return 'merge or rebase onto the branch, and push without --force'
    case 'tag moved':
      return 'create a tag with another name'
    case 'tag of no commit':
      return 'create a tag of a commit'
    case 'branch deleted':
    case 'tag deleted':
      return 'an admin of the repository can remove the rule'
  }
}

/** Returns words for a branch that may be pushed to without checks, so that CI sees the commit. */
function otherBranch(name: string, rules: readonly RefRule[]): string {
  const rulesOf = refRuleMatcher(rules)
  const free = [`${name}-checks`, `checks-${name}`].find(
    (branch) => rulesOf(`${BRANCHES}${branch}`).length === 0,
  )
  return free === undefined ? 'a branch without rules' : `another branch, such as ${free}`
}
