import { join } from 'node:path'
import { accountName } from '../util/accounts.ts'
import { shellQuote } from '../util/shell-quote.ts'
import { unavailable } from './errors.ts'
import { statIfExists } from './file-state.ts'

/** Accounts besides that of this process that can write a repository's configuration. */
export interface OwnerProblem {
  /** Which accounts, and what they can write. */
  reason: string
  /** The shell command, for root, that leaves it to this process. */
  command: string
}

const ROOT = 0
const WRITABLE_BY_OTHERS = 0o022

/**
 * Returns why other accounts can write the configuration of a repository, by which they could let
 * git run programs as the account of this process. Asks of the git directory and its files of
 * configuration who owns them, and who may write them. Root is trusted. Returns null if no other
 * account can.
 *
 * @throws RepositoryUnavailable
 */
export async function findOwnerProblem(
  path: string,
  self = process.geteuid?.() ?? ROOT,
): Promise<OwnerProblem | null> {
  const names = [path, join(path, 'config'), join(path, 'config.worktree')]
  const files = await Promise.all(
    names.map(async (file) => ({ file, stats: await statIfExists(file) })),
  ).catch((error: unknown) => {
    throw unavailable(path, error)
  })

  const foreign = files.find(({ stats }) => stats && ![self, ROOT].includes(Number(stats.uid)))
  const shared = files.filter(({ stats }) => stats && (Number(stats.mode) & WRITABLE_BY_OTHERS) !== 0)
  const quoted = shared.map(({ file }) => shellQuote(file)).join(' ')

  const commands = [
    ...(foreign ? [`chown -R ${nameOf(self)} -- ${shellQuote(path)}`] : []),
    ...(shared.length > 0 ? [`chmod go-w -- ${quoted}`] : []),
  ]
  const reasons = [
    ...(foreign ? [`${foreign.file} belongs to the account ${nameOf(Number(foreign.stats?.uid))}`] : []),
    ...shared.map(({ file }) => `other accounts can write ${file}`),
  ]
  return commands.length === 0 ? null : { reason: reasons.join(', and '), command: commands.join(' && ') }
}

/**
 * Returns what an administrator can do about the problem of a repository.
 *
 * @param fullName OWNER/NAME
 */
export function explainOwnerProblem(
  { reason, command }: OwnerProblem,
  fullName: string,
  path: string,
): string {
  return (
    `${reason}; by the configuration of a repository git runs programs as the service. ` +
    `Leave it to the service (as root: ${command}), run the service as the account that owns its repositories, ` +
    `or, if you trust that account, run: repo import ${fullName} ${shellQuote(path)} --trust-owner`
  )
}

function nameOf(uid: number): string {
  return accountName(uid) ?? String(uid)
}
