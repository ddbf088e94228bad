import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { openOutput, removeOldLogs } from '../../src/cli/work/output.ts'

t.test('the log of a run that is begun again goes on', async (t) => {
  const file = join(temporaryFolder(t), 'acme', 'x.log')
  for (const text of ['one\n', 'two\n']) {
    const output = openOutput('', file)
    await output.copy(Readable.from([Buffer.from(text)]), new PassThrough().resume())
    output.close()
  }
  t.equal(readFileSync(file, 'utf8'), 'one\ntwo\n')
})

t.test('only logs are removed, and the newest are kept', async (t) => {
  const folder = temporaryFolder(t)
  for (const name of ['a.log', 'notes.txt']) writeFileSync(join(folder, name), '')
  removeOldLogs(folder, 1)
  t.same(readdirSync(folder).sort(), ['a.log', 'notes.txt'])
})
