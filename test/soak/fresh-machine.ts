import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import tap, { type Test } from 'tap'
import { codeBlocks, readDocument } from '../docs/machine.ts'
import { packServer } from '../packaging/installed.ts'
import { requireProgram } from './require-program.ts'

/**
 * Installs the packed server on a Debian of its own, with Debian's Node.js 18, npm and git, by the lines of the operator's
 * guide, and sends the first report by those of the README. Then does so without npm. The root folder is made by debootstrap,
 * and from then on there is no network but the loopback. There is no systemd in it: what the unit says is run by hand. Wants to
 * be root.
 */
const SUITE = 'bookworm'
const PACKAGES = ['nodejs', 'npm', 'git', 'curl', 'sudo', 'man-db']
const root = resolve(import.meta.dirname, '../..')
const guide = codeBlocks(readDocument('src/ops/README.md'))
const readme = codeBlocks(readDocument('README.md'))

tap.setTimeout(1_500_000)
requireProgram('debootstrap')

/** Returns the block of code that contains the text. */
function block(blocks: ReturnType<typeof codeBlocks>, text: string): string {
  const found = blocks.find(({ code }) => code.includes(text))
  if (!found) throw new Error(`there is no block of code with "${text}"`)
  return found.code
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }).trim()
}

/** Makes the machine. @returns its root folder */
function makeMachine(t: Test): string {
  const machine = mkdtempSync(join(tmpdir(), 'fresh-machine-'))
  t.teardown(() => rmSync(machine, { recursive: true, force: true }))
  // The service's account must reach its root folder.
  chmodSync(machine, 0o755)
  run('debootstrap', '--variant=minbase', SUITE, machine)
  run('mount', '-t', 'proc', 'proc', join(machine, 'proc'))
  t.teardown(() => run('umount', join(machine, 'proc')))
  // How this machine reaches Debian.
  for (const file of ['/etc/resolv.conf', '/etc/hosts']) copyFileSync(file, join(machine, file))
  // debootstrap cannot put what npm needs in order.
  run('chroot', machine, 'apt-get', 'install', '--quiet', '--yes', '--no-install-recommends', ...PACKAGES)
  const packed = packServer()
  for (const file of [packed, join(dirname(packed), 'SHA256SUMS')])
    copyFileSync(file, join(machine, 'root', basename(file)))
  return machine
}

const ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/root',
}

tap.test('a fresh Debian goes from the packed file to a first report', async (t) => {
  const machine = makeMachine(t)
  // Holds the network in which all else runs.
  const hold = ['--net', 'sh', '-c', 'ip link set lo up; echo; exec sleep infinity']
  const network = spawn('unshare', hold, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => network.kill())
  await once(network.stdout, 'data')
  const enter = ['--target', `${network.pid}`, '--net', 'chroot', machine, 'bash', '-euc']
  const sh = (lines: string) =>
    execFileSync('nsenter', [...enter, `umask 077; cd /root\n${lines}`], {
      encoding: 'utf8',
      env: ENVIRONMENT,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  t.match(sh('node --version'), /^v18\./)
  t.match(sh('node --version; npm --version; git --version'), /git version 2/)

  t.equal(sh('cat /proc/net/route').trim().split('\n').length, 1, 'no route leads anywhere')
  sh(block(guide, 'npm install --global'))
  const unit = block(guide, '[Service]')
  const [, program = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? []
  t.ok(existsSync(join(machine, program)), program)
  writeFileSync(join(machine, 'etc/commit-status.env'), block(guide, 'METRICS_TOKEN='))

  const [, account = ''] = /^User=(.*)$/m.exec(unit) ?? []
  const start = `set -a; . /etc/commit-status.env; exec setpriv --reuid=${account} --regid=${account} --clear-groups --reset-env \\
    env $(grep -v '^#' /etc/commit-status.env) NODE_ENV=production ${program}`
  const server = spawn('nsenter', [...enter, start], {
    env: ENVIRONMENT,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = new Promise((end) => server.once('exit', (code, signal) => end(code ?? signal)))
  t.teardown(() => server.kill('SIGKILL'))
  t.match(sh(block(guide, '--retry-connrefused').split('\n').at(-2) ?? ''), /ready/)

  const users = block(guide, 'admin repo create alice/rocket')
  const report = block(readme, 'curl -X POST').split('\n').slice(1).join('\n')
  const answer = sh(`${users.replace('admin token create', 'TOKEN=$(admin token create').trimEnd()})
    printf '#!/bin/sh\\necho "$TOKEN"\\n' > /root/askpass; chmod +x /root/askpass; export TOKEN GIT_ASKPASS=/root/askpass
    git init --quiet rocket; cd rocket
    git -c user.name=alice -c user.email=alice@example.org commit --quiet --allow-empty --message first
    ${report}`)
  t.match(answer, /"state":"success".*"context":"ci\/build"/)
  t.comment(answer.trim().split('\n').at(-1))

  server.kill('SIGTERM')
  t.equal(await ended, 0, 'SIGTERM stops the server')

  t.match(
    sh('man commit-status-admin; npm uninstall --global --offline commit-status-server'),
    /user create \[NAME\]/,
  )
  t.notOk(existsSync(join(machine, program)))
  sh(block(guide, 'tar --extract'))
  t.match(
    sh(`${users.split('\n')[0]}\nadmin user list`),
    /^alice /m,
    "the service's account can use what was unpacked",
  )
})
