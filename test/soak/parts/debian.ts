import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from '../../helpers/databases.ts'
import { until } from '../../helpers/until.ts'
import { requireProgram, run } from './programs.ts'

const SUITE = 'bookworm'
const ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/root',
}

/** A Debian of its own that systemd has booted, without a network but its loopback. */
export interface Debian {
  root: string
  /** Runs lines in it as root, and fails with the first that fails. Returns what they print. */
  sh(lines: string): string
  /** Its first process, as this machine numbers it. */
  init: string
}

/** Makes a Debian with debootstrap. Wants to be root. @returns its root folder */
export function makeDebian(t: Test, packages: readonly string[]): string {
  requireProgram('debootstrap')
  requireProgram('systemd-nspawn', 'systemd-container')
  const root = temporaryFolder(t)
  // Accounts of services must reach their root folder.
  chmodSync(root, 0o755)
  run('debootstrap', '--variant=minbase', SUITE, root)
  // How this machine reaches Debian.
  for (const file of ['/etc/resolv.conf', '/etc/hosts']) copyFileSync(file, join(root, file))
  // debootstrap cannot put what npm needs in order.
  runIn(root, `apt-get install --quiet --yes --no-install-recommends ${packages.join(' ')}`)
  return root
}

/** Runs lines as root in a Debian that is not booted, and that reaches the network. */
export function runIn(root: string, lines: string): string {
  return run('chroot', root, 'env', '--ignore-environment', `PATH=${ENVIRONMENT.PATH}`, 'bash', '-euc', lines)
}

/** Boots a Debian. The teardown powers it off. */
export async function bootDebian(t: Test, root: string): Promise<Debian> {
  // Without systemd-machined, which this machine may lack.
  const options = ['--quiet', '--register=no', '--keep-unit', '--private-network', '--console=pipe']
  const nspawn = spawn('systemd-nspawn', [...options, '--boot', '--directory', root], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = once(nspawn, 'exit')
  t.teardown(async () => {
    nspawn.kill('SIGTERM')
    await ended
  })
  const children = () => readFileSync(`/proc/${nspawn.pid}/task/${nspawn.pid}/children`, 'utf8').trim()
  const sh = (lines: string) => {
    const enter = ['--target', children(), '--all', 'bash', '-euo', 'pipefail', '-c']
    const { status, stdout, stderr } = spawnSync('nsenter', [...enter, `umask 077; cd /root\n${lines}`], {
      encoding: 'utf8',
      env: ENVIRONMENT,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    if (status !== 0) throw new Error(`exit code ${status} of:\n${lines}\n${stdout}${stderr}`)
    return stdout
  }
  await until(() => {
    try {
      return sh('systemctl is-system-running --wait 2>&1').trim() === 'running'
    } catch {
      return false
    }
  })
  return { root, sh, init: children() }
}
