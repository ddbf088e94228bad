import { symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { git } from '../helpers/git.ts'
import { startProcess } from '../helpers/process.ts'

t.test('without the package of the client the server starts, and says how to build it', async (t) => {
  const clone = join(temporaryFolder(t), 'clone')
  git('.', 'clone', '--quiet', '--shared', '.', clone)
  symlinkSync(resolve('node_modules'), join(clone, 'node_modules'))
  const server = startProcess(t, process.execPath, [join(clone, 'src/server.ts')], {
    DATA_DIR: temporaryFolder(t),
    PORT: '0',
  })
  const [, url = ''] = await server.printed(/^Listening on (http:.+)$/m)
  const answer = await fetch(`${url}/assets/commit-status-client.tgz`)
  t.equal(answer.status, 404)
  t.match(await answer.text(), /npm run prepare/)
  t.equal((await fetch(`${url}/docs/reference`)).status, 200)
})
