import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commandToClose } from '../../src/ops/data-directory.ts'
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
