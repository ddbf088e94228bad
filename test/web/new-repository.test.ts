import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { databases, temporaryFolder } from '../helpers/databases.ts'
import { replaceGit } from '../helpers/git.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

for (const database of databases)
  t.test(`no page waits while git creates a repository, ${database.name}`, async (t) => {
    const server = await startServer(t, { database })
    await createAccount(server, 'alice')
    const alice = openPageClient(server.url)
    await alice.signIn('alice')
    const folder = temporaryFolder(t)
    const at = (name: string) => join(folder, name)
    const wait = `echo >> '${at('started')}'; while [ ! -e '${at('go')}' ]; do sleep 0.05; done`
    replaceGit(t, `case "$*" in *" init "*|"init "*) ${wait};; esac; exec "$git" "$@"`)

    const create = (name: string) =>
      alice.submit('/settings/repositories/new', '/settings/repositories/new', {
        owner: 'alice',
        name,
        visibility: 'public',
        'object-format': 'sha1',
      })
    let isCreated = false
    const created = ['one', 'two', 'three'].map(async (name) => {
      const { status } = await create(name)
      isCreated = true
      return status
    })
    await until(() => existsSync(at('started')))
    for (const path of ['/', '/alice', '/settings/tokens']) t.equal((await alice.get(path)).status, 200, path)
    t.equal(isCreated, false)
    writeFileSync(at('go'), '')
    t.same(await Promise.all(created), [303, 303, 303])
  })
