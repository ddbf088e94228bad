import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { test } from 'tap'
import { CommitLookup } from '../src/git/objects/commit-lookup.ts'
import { checkAll } from '../src/maintenance/check.ts'
import { deleteRepository } from '../src/repositories/delete.ts'
import { openStore } from '../src/store/store.ts'
import { basic } from './git-http/client.ts'
import { beginRefs, beginRpc, pushBody } from './git-http/raw.ts'
import { databases, temporaryFolder } from './helpers/databases.ts'
import { listEvents } from './helpers/events.ts'
import { replaceGit } from './helpers/git.ts'
import { openPageClient } from './helpers/page-client.ts'
import { startServer } from './helpers/server.ts'
import { until } from './helpers/until.ts'

const NONE = '0'.repeat(40)

const cases = databases.flatMap((database) => [false, true].map((isReplaced) => ({ database, isReplaced })))

for (const { database, isReplaced } of cases)
  test(`${database.name}: what is under way when its repository is deleted${isReplaced ? ' and created again' : ''}`, async (t) => {
    // Longer than what is deleted meanwhile takes on a busy machine.
    const lookup = new CommitLookup({ timeout: 60_000 })
    const server = await startServer(t, { database, lookup })
    t.teardown(() => lookup.close())
    const { store, url } = server
    const token = await server.createToken('owner')
    const other = await openStore(server.options)
    t.teardown(() => other.close())
    const { id, path, commits } = await server.createRepository('owner/demo')
    const [commit = ''] = commits
    const folder = temporaryFolder(t)
    const [begun, ended] = [join(folder, 'begun'), join(folder, 'ended')]
    mkdirSync(begun)
    // git works until the deletion has ended.
    replaceGit(
      t,
      `case "$*" in *'receive-pack '*|*'upload-pack '*|*'cat-file '*|*'for-each-ref '*|*'log '*)
        echo "$*" >'${begun}'/$$; until [ -e '${ended}' ]; do sleep 0.05; done;; esac
      exec "$git" "$@"`,
    )

    const place = `${url}/owner/demo.git`
    const authorization = basic(token, '')
    const push = beginRpc(place, 'git-receive-pack', authorization)
    push.request.end(pushBody([`${NONE} ${commit} refs/heads/new`], 'report-status'))
    await until(() => store.pushes.hasOpen(id))
    const report = server.report('owner/demo', commit, { state: 'success' }, token)
    const page = openPageClient(url).get('/owner/demo')
    const lists = [beginRefs(place, { authorization }), beginRefs(place, {})]
    const expected = { expect: '100-continue', 'content-length': '4' }
    const fetched = beginRpc(place, 'git-upload-pack', authorization, expected)
    fetched.request.flushHeaders()
    await once(fetched.request, 'continue')
    await until(() => readdirSync(begun).length >= 5)
    await deleteRepository((work) => other.audit.transaction({ kind: 'administrator' }, work), other, {
      owner: 'owner',
      name: 'demo',
    })
    t.same([existsSync(path), await store.repositories.listDeleted()], [false, []])
    const create = () => server.createRepository('owner/demo', { commits: 0 })
    const replacement = isReplaced ? await create() : null
    writeFileSync(ended, '')

    const answers = [(await report).status, (await page).status]
    t.equal(answers[0], 404, 'a report finds nothing')
    if (!isReplaced) t.equal(answers[1], 303, 'whoever is not signed in is asked to')
    fetched.request.end('0009')
    t.match((await fetched.answer).body.toString(), /^....ERR (?!.*unavailable)/)
    const statuses = lists.map(async ({ answer }) => (await answer).status)
    t.same(await Promise.all(statuses), [404, 401], 'lists of refs')
    const said = (await push.answer).body.toString()
    t.match(said, /ng refs\/heads\/new (?!.*unavailable).*/i)
    const again = replacement ?? (await create())
    await until(async () => !(await store.pushes.hasOpen(id)))
    for (const [table, column] of [
      ['statuses', 'repository_id'],
      ['branch_moves', 'repository_id'],
      ['repositories', 'id'],
    ]) {
      const { rows } = await sql`select 1 from ${sql.table(table ?? '')}
        where ${sql.ref(column ?? '')} = ${id}`.execute(store.engine.kysely)
      t.same(rows, [], `no row of ${table}`)
    }
    t.same([existsSync(path), readdirSync(join(again.path, 'refs/heads'))], [false, []])
    t.same(await store.statuses.list(again.id, commit), [], 'the next one of the name gets nothing of it')
    const choice = { full: true, commits: true, prune: false }
    t.same((await checkAll(store, lookup, choice, () => {})).findings, [])
    const pushes = (await listEvents(store)).filter(({ action }) => action === 'push')
    t.ok(pushes.length <= 1)
  })
