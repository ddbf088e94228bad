import { readFileSync } from 'node:fs'
import { parse } from './arguments.ts'
import { anyTip, changedRefs, isAncestor, isTag, resolveCommit, ruledName } from './checkout.ts'
import { unmetChecks } from './describe-verdict.ts'
import { exitCodes } from './exit-codes.ts'
import { findTarget, targetOptions } from './target.ts'
import { say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

const { repo, url } = targetOptions
export const gateOptions = { repo, url, 'branch-rules': { type: 'boolean' } } as const

const NOTHING = /^0+$/
const UNREADABLE = 'its repository cannot be read'

/**
 * Runs `commit-status gate`: refuses updates that the rules of branches and tags do not allow, as a `pre-receive`
 * or `update` hook.
 */
export async function gate(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals } = parse({ args, allowPositionals: true, options: gateOptions })
  if (!values['branch-rules']) throw new UsageError('gate needs --branch-rules')
  let exitCode: number = exitCodes.success
  for (const [ref, old, tip] of updates(positionals)) {
    const refs = changedRefs(ref)
    if (!refs) refuse(ref, UNREADABLE)
    for (const ref of refs ?? []) {
      const reason = await reasonAgainst(ref, old, tip)
      if (reason) refuse(ruledName(ref), reason)
    }
  }
  return exitCode

  function refuse(name: string, reason: string): void {
    say(`${name}: ${reason}`)
    exitCode = exitCodes.failure
  }

  async function reasonAgainst(ref: string, old: string, tip: string): Promise<string | undefined> {
    const branch = ruledName(ref)
    const [what, isDeletion] = [isTag(ref) ? 'a tag' : 'a branch', NOTHING.test(tip)]
    const id = isDeletion ? old : tip
    // A tag may be an object of its own, and need not lead to a commit.
    const peeled = isTag(ref) ? resolveCommit('.', id) : id
    const sha = peeled ?? id
    const {
      client,
      targetUrl: _link,
      ...commit
    } = await findTarget({ ...values, sha, 'target-url': '' }, env)
    let answer = await client.getVerdict({ ...commit, branch })
    const isUnknown = answer.status === 404
    if (isUnknown) {
      // The verdict on any known commit lists the branch rules. The first push to an empty
      // repository passes.
      const known = anyTip()
      if (known === undefined) return UNREADABLE
      if (known === '') return undefined
      answer = await client.getVerdict({ ...commit, sha: known, branch })
    }
    if (answer.status !== 200) return `cannot read its rules: ${answer.body?.error ?? answer.status}`
    const { required } = answer.body
    if (required.length === 0) return undefined
    if (isDeletion) return `${what} with required checks cannot be deleted`
    if (isTag(ref) && !NOTHING.test(old)) return 'a tag with required checks cannot be moved'
    if (peeled === undefined) return 'a tag with required checks must name a commit'
    if (!isTag(ref) && !NOTHING.test(old) && !isAncestor(old, tip))
      return 'a branch with required checks cannot be pushed to by force'
    return unmetChecks(isUnknown ? required.map((known) => ({ ...known, state: null })) : required).join(', ')
  }
}

/**
 * Returns ref, old and new id of each update: the arguments of `update`, or the lines on stdin of
 * `pre-receive`.
 */
function updates(words: string[]): [ref: string, old: string, tip: string][] {
  const [ref, old, tip, ...more] = words
  if (ref && old && tip && more.length === 0) return [[ref, old, tip]]
  if (ref) throw new UsageError(`expected REF OLD NEW or no arguments, got ${words.length}`)
  const lines = readFileSync(0, 'utf8').split('\n').filter(Boolean)
  return lines.map((line) => {
    const [old = '', tip = '', ref = ''] = line.split(' ')
    return [ref, old, tip]
  })
}
