import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, realpathSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkAccount, commandToClose } from '../../src/ops/data-directory.ts'
import { temporaryFolder } from '../helpers/databases.ts'

t.test(
  'finds a data directory that other accounts can enter, and names the command that fixes it',
  async (t) => {
    for (const name of ['data', "o'brien's $(data)", '-R', 'line\nbreak']) {
      const folder = join(realpathSync(temporaryFolder(t)), name)
      mkdirSync(folder)
      const link = join(temporaryFolder(t), 'link')
      symlinkSync(folder, link)
      for (const mode of [0o755, 0o710, 0o701, 0o740, 0o777]) {
        chmodSync(folder, mode)
        const command = commandToClose(folder)
        t.match(command, 'chmod go-rwx -- ', mode.toString(8))
        t.equal(commandToClose(link), command, 'through a link')
        execFileSync('sh', ['-c', command ?? 'false'])
        t.equal(commandToClose(folder), null, name)
      }
    }
  },
)

t.test('accepts a missing folder', async (t) => {
  t.equal(commandToClose(join(temporaryFolder(t), 'none')), null)
})

t.test('the group of a folder that belongs to another account keeps its access', async (t) => {
  const folder = join(realpathSync(temporaryFolder(t)), 'data')
  mkdirSync(folder)
  const service = statSync(folder).uid + 1
  // As Kubernetes leaves a volume with an fsGroup.
  chmodSync(folder, 0o2770)
  t.equal(commandToClose(folder, service), null)
  chmodSync(folder, 0o2777)
  const command = commandToClose(folder, service)
  t.match(command, 'chmod o-rwx -- ')
  execFileSync('sh', ['-c', command ?? 'false'])
  t.equal(statSync(folder).mode & 0o777, 0o770)
})

t.test('a folder of root is given to the service, which does not run as root for it', async (t) => {
  // It can write anywhere.
  if (process.geteuid?.() === 0) return
  t.throws(() => checkAccount('/proc', 'it', 65_533), {
    name: 'Refusal',
    message: /^\/proc belongs to root, .*: chown -R -- '\S+' '\/proc' \(in Kubernetes, set fsGroup/,
  })
})
