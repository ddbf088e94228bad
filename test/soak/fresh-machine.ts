import { copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import tap from 'tap'
import { codeBlock, readDocument } from '../docs/machine.ts'
import { bootDebian, makeDebian } from './parts/debian.ts'
import { packServer } from './parts/installed.ts'

/**
 * Installs the packed server on a Debian of its own, with Debian's Node.js 18, npm and git, by the
 * lines of the operator's guide, lets its systemd run the guide's unit, and sends the first report
 * by the lines of the README. Then does so without npm. The root folder is made by debootstrap and
 * booted by systemd-nspawn, without a network but the loopback. Wants to be root.
 */
const PACKAGES = ['systemd-sysv', 'dbus', 'nodejs', 'npm', 'git', 'curl', 'sudo']
const guide = readDocument('src/ops/README.md')
const readme = readDocument('README.md')

tap.setTimeout(1_500_000)

tap.test('a fresh Debian goes from the packed file to a first report', async (t) => {
  const machine = makeDebian(t, PACKAGES)
  const packed = packServer()
  for (const file of [packed, join(dirname(packed), 'SHA256SUMS')])
    copyFileSync(file, join(machine, 'root', basename(file)))
  const { sh } = await bootDebian(t, machine)
  t.match(sh('node --version'), /^v18\./)
  t.match(sh('node --version; npm --version; git --version'), /git version 2/)

  t.equal(sh('cat /proc/net/route').trim().split('\n').length, 1, 'no route leads anywhere')
  sh(codeBlock(guide, 'npm install --global'))
  const unit = codeBlock(guide, '[Service]')
  const [, program = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? []
  t.ok(existsSync(join(machine, program)), program)
  writeFileSync(join(machine, 'etc/commit-status.env'), codeBlock(guide, 'METRICS_TOKEN='))
  writeFileSync(join(machine, 'etc/systemd/system/commit-status.service'), unit)
  t.match(sh(codeBlock(guide, 'systemctl enable --now')), /ready/)
  // Anything that systemd does not know, it names and leaves out.
  t.equal(sh('systemd-analyze verify commit-status.service 2>&1 | grep commit-status || true'), '')
  t.equal(sh("stat --format '%U %a' /var/lib/commit-status").trim(), 'commit-status 700')

  const users = codeBlock(guide, 'admin repo create alice/rocket')
  const report = codeBlock(readme, 'curl -X POST')
  const answer = sh(`${users.replace('admin token create', 'TOKEN=$(admin token create').trimEnd()})
    printf '#!/bin/sh\\necho "$TOKEN"\\n' > /root/askpass; chmod +x /root/askpass; export TOKEN GIT_ASKPASS=/root/askpass
    git init --quiet rocket; cd rocket
    git -c user.name=alice -c user.email=alice@example.org commit --quiet --allow-empty --message first
    ${report}`)
  t.match(answer, /"state":"success".*"context":"hello"/)
  t.comment(answer.trim().split('\n').at(-1))

  const show = (property: string) => sh(`systemctl show --property ${property} --value commit-status`).trim()
  const before = show('MainPID')
  sh(`kill -KILL ${before}; while [ "$(systemctl is-active commit-status)" != active ]; do sleep 0.1; done`)
  t.not(show('MainPID'), before, 'a killed server is started again')
  const askReady = codeBlock(guide, '--retry-connrefused').split('\n').at(-2) ?? ''
  t.match(sh(askReady), /ready/)
  sh('systemctl stop commit-status')
  t.same([show('Result'), show('ExecMainStatus')], ['success', '0'], 'SIGTERM stops the server')

  sh(codeBlock(guide, 'commit-status@3001'))
  for (const port of [3000, 3001]) t.match(sh(askReady.replace('3000', `${port}`)), /ready/, `port ${port}`)
  sh('systemctl disable --now commit-status@3000 commit-status@3001')

  sh('npm uninstall --global --offline commit-status-server')
  t.notOk(existsSync(join(machine, program)))
  sh(codeBlock(guide, 'tar --extract'))
  t.match(
    sh(`${users.split('\n')[0]}\nadmin user list`),
    /^alice /m,
    "the service's account can use what was unpacked",
  )
})
