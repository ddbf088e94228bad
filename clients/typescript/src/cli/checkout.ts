import { execFileSync } from 'node:child_process'

/** HEAD of the checkout around a folder, and OWNER/NAME from the address of its remote `origin`. */
export function checkoutOf(cwd: string): { sha?: string | undefined; repository?: string | undefined } {
  return {
    sha: git(cwd, 'rev-parse', '--verify', 'HEAD'),
    repository: slugOf(git(cwd, 'config', '--get', 'remote.origin.url') ?? ''),
  }
}

/** OWNER/NAME from a git address: `https://host/acme/rocket.git`, `ssh://…`, `git@host:acme/rocket`. */
export function slugOf(address: string): string | undefined {
  const isUrl = /^(?:https?|ssh|git):\/\//i.test(address)
  const path = isUrl
    ? URL.canParse(address) && new URL(address).pathname
    : /^[^/:]+:(?!\/\/)(.+)$/.exec(address)?.[1]
  return /^\/?([^/]+\/[^/]+?)(?:\.git)?\/?$/.exec(path || '')?.[1]
}

/** Checkouts in containers often belong to another user; nothing is run from them here. */
function git(cwd: string, ...args: string[]): string | undefined {
  try {
    const output = execFileSync('git', ['-c', 'safe.directory=*', ...args], {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 5_000,
    })
    return output.trim() || undefined
  } catch {
    return undefined
  }
}
