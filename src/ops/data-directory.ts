import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { Refusal } from '../domain/refusal.ts'
import { accountName } from '../util/accounts.ts'
import { isSystemError } from '../util/expected-errors.ts'
import { shellQuote } from '../util/shell-quote.ts'

const GROUP_AND_OTHERS = 0o077
const OTHERS = 0o007

/**
 * Makes sure that the server can use what this process writes in the data directory. Root must not
 * work in the directory of another account: it would leave files there that the service cannot
 * write.
 *
 * @param command to run as the other account, for the message
 * @param self id of the account that this process runs as
 * @throws Refusal that names the account to use
 */
export function checkAccount(dataDir: string, command: string, self = process.geteuid?.()): void {
  const stats = statSync(dataDir, { throwIfNoEntry: false })
  if (!stats || stats.uid === self) return
  if (self !== 0 && canWrite(dataDir)) return
  if (stats.uid === 0) {
    const account = self === undefined ? 'ACCOUNT' : (accountName(self) ?? String(self))
    throw new Refusal(
      `${dataDir} belongs to root, and this account cannot write there. ` +
        `Give it to the account of the service, as root: chown -R -- ${shellQuote(account)} ${shellQuote(dataDir)} ` +
        '(in Kubernetes, set fsGroup in the securityContext of the pod)',
    )
  }
  const name = accountName(stats.uid)
  const problem =
    self === 0
      ? 'root would leave files there that the service cannot write'
      : 'this account cannot write there'
  throw new Refusal(
    `${dataDir} belongs to the account ${name ?? stats.uid}, and ${problem}. ` +
      `Run the command as that account: sudo -u ${name ?? `'#${stats.uid}'`} ${command}`,
  )
}

/**
 * Returns the shell command that keeps other accounts out of the data directory; null if it is
 * closed or missing. One that belongs to another account, such as a volume with an fsGroup, is open
 * to this one through its group, which keeps its access.
 *
 * @param self id of the account that this process runs as
 */
export function commandToClose(dataDir: string, self = process.geteuid?.()): string | null {
  const stats = statSync(dataDir, { throwIfNoEntry: false })
  if (!stats) return null
  const isOwn = stats.uid === self
  if ((stats.mode & (isOwn ? GROUP_AND_OTHERS : OTHERS)) === 0) return null
  return `chmod ${isOwn ? 'go-rwx' : 'o-rwx'} -- ${shellQuote(realpathSync(dataDir))}`
}

function canWrite(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    return true
  } catch (error) {
    // Missing rights, or a file system that is mounted for reading only.
    if (isSystemError(error)) return false
    throw error
  }
}
