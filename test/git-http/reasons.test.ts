import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import t from 'tap'
import { defaultMessage, type ErrorCode } from '../../src/errors.ts'
import { StoreUnavailable } from '../../src/store/engine.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { sqlite } from '../helpers/databases.ts'
import { replaceGit } from '../helpers/git.ts'
import { recordLog } from '../helpers/log.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, tryGit, workFolder } from './client.ts'
import { blockGit, finish, startGitServer, WHOLE } from './git-server.ts'
import { beginRpc, packet, pushBody, servicesOf, spooledFiles } from './raw.ts'

/** Checks that git itself printed the message of an error. */
function says(code: ErrorCode, stderr: string, prefix = 'remote: '): void {
  t.ok(stderr.includes(`${prefix}${defaultMessage(code)}`), `${code}: ${stderr}`)
}

t.test('git prints why a fetch or push is refused', async (t) => {
  const server = await startServer(t, { budget: { limit: 7, window: 300 }, database: sqlite })
  const administrator = asAdministrator(server.store)
  const { path } = await server.createRepository('owner/public')
  await server.createRepository('owner/private', { private: true })
  const good = await server.createToken('owner')
  const tokens = {
    expired: await server.createToken('owner', { expiresAt: Date.now() - 1 }),
    'without scope': await server.createToken('owner', { scopes: [] }),
    'without pushes': await server.createToken('owner', { limits: { push: false } }),
    revoked: await server.createToken('revoked'),
    locked: await server.createToken('locked'),
    stranger: await server.createToken('stranger'),
  }
  await administrator.tokens.revokeAll(await server.createUser('revoked'))
  await administrator.users.setLocked('locked', true)
  const checkout = await createCheckout(t, `${server.url}/owner/public.git`)
  const run = async (args: string[], name: string, password: string) => {
    const credential = { username: 'x', password }
    const url = `${server.url}/owner/${name}.git`
    const { code, stderr } = await tryGit(checkout, [...args.slice(0, 1), url, ...args.slice(1)], {
      credential,
    })
    t.not(code, 0)
    return stderr
  }
  const push = (name: string, token: string) => run(['push', 'HEAD:new'], name, token)
  const fetch = (name: string, token: string) => run(['fetch'], name, token)

  says('credential_unknown', await push('public', 'wrong'))
  says('credential_unknown', await push('public', tokens.expired))
  says('credential_unknown', await push('public', tokens.revoked))
  says('credential_unknown', await push('public', tokens.locked))
  says('scope_missing', await push('public', tokens['without scope']))
  says('token_excludes_push', await push('public', tokens['without pushes']))
  says('read_only', await push('public', tokens.stranger))
  says('repository_unknown', await fetch('private', tokens.stranger))
  says('repository_unknown', await fetch('missing', good))
  says('credential_unknown', await fetch('private', 'wrong'))

  const lock = new Sqlite(join(server.dataDir, 'commit-status.db'))
  t.teardown(() => lock.close())
  lock.exec('begin exclusive')
  says('unavailable', await push('public', good), '')
  lock.exec('rollback')
  renameSync(path, `${path}.away`)
  says('unavailable', await push('public', good))
  renameSync(`${path}.away`, path)

  for (let count = 0; count < 3; count++) await fetch('private', 'wrong')
  says('blocked', await push('public', good))
})

/** Lets a client wait before it sends its push, until the returned function is called. */
async function pushInSteps(url: string, authorization: string, branch: string) {
  const checkout = await createCheckout(t, url)
  const [ready, go] = [join(checkout, 'ready'), join(checkout, 'go')]
  const hook = `#!/bin/sh\ntouch ${ready}\nwhile [ ! -e ${go} ]; do sleep 0.05; done\n`
  mkdirSync(join(checkout, '.git/hooks'), { recursive: true })
  writeFileSync(join(checkout, '.git/hooks/pre-push'), hook, { mode: 0o755 })
  const pushed = tryGit(checkout, ['push', 'origin', `HEAD:${branch}`], { authorization })
  await until(() => existsSync(ready))
  return { pushed, go: () => writeFileSync(go, '') }
}

t.test('a push waits long for a place, and its client hears of it', async (t) => {
  const limits = { maxChildren: 4, maxWait: 100, keepAlive: 300 }
  const { server, url, authorization, hold } = await startGitServer(t, limits)
  const { collaborators } = asAdministrator(server.store)
  const repository = { owner: 'owner', name: 'demo' }
  const leaver = await server.createUser('leaver')
  await collaborators.set(repository, leaver, 'write')
  const first = await pushInSteps(url, authorization, 'first')
  const second = await pushInSteps(url, basic('x', await server.createToken('leaver')), 'second')
  const held = await hold()
  first.go()
  second.go()
  const raw = beginRpc(url, 'git-receive-pack', authorization)
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/raw`
  raw.request.end(pushBody([command], 'report-status side-band-64k'))
  await until(() => spooledFiles().length === 4)
  await setTimeout(5 * limits.keepAlive)
  await collaborators.set(repository, leaver, 'read')
  await finish(held)
  const waiting = /remote: The server is busy, and the push waits for its turn/
  const { code, stderr } = await first.pushed
  t.equal(code, 0, stderr)
  t.match(stderr, waiting)
  const late = await second.pushed
  t.match(late.stderr, waiting)
  says('read_only', late.stderr, '! [remote rejected] HEAD -> second (')
  const packets = (await raw.answer).body.toString('latin1')
  t.match(packets, `The server is busy, and the push waits for its turn.\n${packet('\x01').repeat(3)}`)
  await until(() => spooledFiles().length === 0)
})

t.test('a push that waits in vain, and a fetch, are told so by git', async (t) => {
  const limits = { maxChildren: 4, maxWait: 100 }
  const first = await startGitServer(t, { ...limits, timeout: 6_000 })
  const push = await pushInSteps(first.url, first.authorization, 'vain')
  // Keeps the only place, also beyond its own time, however late the other push asks for it.
  const { pushes } = first.server.store
  const { open } = pushes
  const [opening, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  t.capture(pushes, 'open', async (...push: Parameters<typeof open>) => {
    opening.resolve()
    await goOn.promise
    return open(...push)
  })
  const held = first.begin('push', '127.0.0.2', WHOLE.push)
  held.request.end()
  await opening.promise
  push.go()
  says('git_busy', (await push.pushed).stderr, '! [remote rejected] HEAD -> vain (')
  goOn.resolve()
  await held.answer

  const { url, clone } = await startGitServer(t, limits)
  await clone()
  const release = blockGit(t, 'git-upload-pack')
  const lists = [1, 2, 3].map(() => tryGit(workFolder(t), ['ls-remote', url]))
  await until(() => servicesOf().length >= 1)
  const refused = await tryGit(workFolder(t), ['ls-remote', url])
  says('git_busy', refused.stderr)
  release()
  await Promise.all(lists)
})

t.test('what is found out late is said in the protocol of each client', async (t) => {
  const metricsToken = 'x'.repeat(32)
  const { server, url, path, authorization } = await startGitServer(t, {}, { metricsToken })
  const { open } = server.store.pushes
  t.teardown(() => {
    server.store.pushes.open = open
  })
  server.store.pushes.open = () => Promise.reject(new StoreUnavailable('away'))
  for (const capabilities of ['report-status', 'report-status side-band-64k']) {
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    request.end(pushBody([`${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/x`], capabilities))
    const { status, body } = await answer
    t.equal(status, 200)
    const report = `${packet('unpack ok\n')}${packet(`ng refs/heads/x ${defaultMessage('unavailable')}\n`)}0000`
    t.equal(body.toString(), capabilities.endsWith('k') ? `${packet(`\x01${report}`)}0000` : report)
  }
  renameSync(path, `${path}.away`)
  const { request, answer } = beginRpc(url, 'git-upload-pack', '')
  request.end(WHOLE.fetch)
  const { status, body } = await answer
  t.equal(status, 200)
  t.equal(body.toString(), packet(`ERR ${defaultMessage('unavailable')}`))
  renameSync(`${path}.away`, path)
  const { body: metrics } = await server.call('GET', '/metrics', { token: metricsToken })
  for (const service of ['git-receive-pack', 'git-upload-pack'])
    t.match(metrics, new RegExp(`_count\\{operation="${service}",status="503"\\} [12]\n`), 'the metrics know')
})

t.test('git prints why a push failed that git did not report, whatever it had said', async (t) => {
  const limits = { pushTime: { any: 6_000, megabyte: 0, ref: 0, short: 7_000 } }
  const { server, url, path, authorization } = await startGitServer(t, limits)
  const { path: otherPath } = await server.createRepository('owner/other')
  const checkout = await createCheckout(t, url)
  /** Pushes to two repositories at once, for each of which git runs a script. */
  const push = (...scripts: [string, string]) => {
    const cases = [path, otherPath].map(
      (place, index) => `"receive-pack --stateless-rpc ${place}") ${scripts[index]};;`,
    )
    replaceGit(t, `case "$1 $2 $3" in ${cases.join(' ')} esac; exec "$git" "$@"`)
    return Promise.all(
      ['demo', 'other'].map(async (name) => {
        const args = ['push', `${server.url}/owner/${name}.git`, 'HEAD:failed']
        return (await tryGit(checkout, args, { authorization })).stderr
      }),
    )
  }
  const rejected = '! [remote rejected] HEAD -> failed ('
  const progress = `printf '000c\\002Hello.\\n'`
  const cut = `${progress}; printf '0fff\\001cut'`
  for (const stderr of await push(`${progress}; exec sleep 30`, `${cut}; exec sleep 30`)) {
    t.match(stderr, 'remote: Hello.')
    t.ok(stderr.includes(`${rejected}Git took longer than it may here`), stderr)
  }
  for (const stderr of await push('exit 1', `${progress}; exit 1`)) says('unavailable', stderr, rejected)
})

t.test('git prints why a push of many refs is refused, though the report is short', async (t) => {
  const { server, url, authorization } = await startGitServer(t)
  const { open } = server.store.pushes
  t.teardown(() => {
    server.store.pushes.open = open
  })
  server.store.pushes.open = () => Promise.reject(new StoreUnavailable('away'))
  const checkout = await createCheckout(t, url)
  const tip = await git(checkout, ['rev-parse', 'HEAD'])
  const names = Array.from({ length: 300 }, (_, index) => `refs/heads/${'x'.repeat(200)}-${1_000 + index}`)
  writeFileSync(join(checkout, '.git/packed-refs'), names.map((name) => `${tip} ${name}\n`).join(''))
  const args = ['push', url, 'refs/heads/x*:refs/heads/x*']
  const { stderr } = await tryGit(checkout, args, { authorization })
  const [last = ''] = stderr
    .split('\n')
    .filter((line) => line.startsWith(' ! '))
    .slice(-1)
  says('unavailable', last, `${'x'.repeat(200)}-1299 (`)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  const commands = names.map((name) => `${'0'.repeat(40)} ${tip} ${name}`)
  request.end(pushBody(commands, 'report-status side-band-64k'))
  t.ok((await answer).body.length < 400, 'answers that nobody reads stay in memory')
})

t.test('refused pushes are counted by kind of reason, and logged with at most ten refs', async (t) => {
  const metricsToken = 'x'.repeat(32)
  const { logger, lines } = recordLog('info')
  const { server, url, authorization } = await startGitServer(t, {}, { metricsToken, logger })
  const { store } = server
  const repository = await store.repositories.get('owner', 'demo')
  for (const refPattern of ['stable', 'r/*'])
    await asAdministrator(store).rules.set(repository, { refPattern, required: ['ci'], bypass: [] })
  const checkout = await createCheckout(t, url)
  const tip = await git(checkout, ['rev-parse', 'HEAD'])
  const sum = async () => {
    const { body } = await server.call('GET', '/metrics', { token: metricsToken })
    const counts = body.matchAll(/^commit_status_refused_pushes_total\{reason="([^"]+)"\} (\d+)$/gm)
    return new Map(Array.from(counts, ([, kind = '', count]) => [kind, Number(count)]))
  }
  /** Pushes, and returns which kinds were counted and what was logged. */
  const refuse = async (push: () => Promise<unknown>) => {
    const before = await sum()
    lines.length = 0
    await push()
    const kinds = Array.from(await sum()).filter(([kind, count]) => count > (before.get(kind) ?? 0))
    t.ok(kinds.every(([kind, count]) => count === (before.get(kind) ?? 0) + 1))
    const entries = lines.map((line) => JSON.parse(line)).filter(({ msg }) => /^push refused/.test(msg))
    return { kinds: kinds.map(([kind]) => kind), entries }
  }
  const gitPush = (...args: string[]) => tryGit(checkout, ['push', url, ...args], { authorization })
  const rawPush = (commands: string[], pack?: Buffer) => {
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    request.end(pushBody(commands, 'report-status', pack))
    return answer
  }

  t.equal((await sum()).get('checks'), 0, 'every series exists from the start')
  const guide = readFileSync('src/ops/README.md', 'utf8')
  for (const kind of (await sum()).keys()) t.ok(guide.includes(`\`${kind}\``), `the guide explains ${kind}`)
  const missing = await refuse(() => gitPush('HEAD:stable', 'HEAD:topic-\u202e'))
  t.same(missing.kinds, ['checks'])
  const push = { user: 'owner', repository: 'owner/demo', level: 30, msg: 'push refused' }
  const reason = 'ci has not reported'
  t.match(missing.entries, [{ ...push, ref: 'refs/heads/stable', kind: 'checks', reason }])
  t.equal(missing.entries.length, 1, 'the other ref was updated')
  t.match(missing.entries[0].reqId, /^[\w-]{36}$/)
  t.notMatch(JSON.stringify(missing.entries), /cst_/)

  await addReport({ store, repositoryId: repository.id, sha: tip }, 'ci', 'failure')
  const failed = await refuse(() => gitPush('HEAD:stable', '--atomic', 'HEAD:beside'))
  t.same(failed.kinds.sort(), ['atomic', 'failed checks'])
  t.equal(failed.entries.length, 2)

  const refs = Array.from({ length: 13 }, (_, index) => `HEAD:refs/heads/r/é${index + 10}`)
  const many = await refuse(() => gitPush(...refs))
  t.same(many.kinds, ['failed checks'], 'a push is counted once')
  t.equal(many.entries.length, 11)
  t.equal(many.entries[0].ref, 'refs/heads/r/é10')
  t.match(many.entries[10], { user: 'owner', repository: 'owner/demo', msg: 'push refused: and 3 more refs' })
  t.equal((await refuse(() => gitPush(...refs.slice(0, 10)))).entries.length, 10, 'there are no more')

  await addReport({ store, repositoryId: repository.id, sha: tip }, 'ci', 'success')
  t.same(
    await refuse(() => gitPush('HEAD:stable', 'HEAD:a')),
    { kinds: [], entries: [] },
    'nothing was refused',
  )
  await commit(checkout)
  await git(checkout, [
    'update-ref',
    'refs/heads/unrelated',
    await git(checkout, ['commit-tree', '-m', 'x', 'HEAD^{tree}']),
  ])
  t.same((await refuse(() => gitPush('--force', 'unrelated:stable'))).kinds, ['branch forced'])
  t.same((await refuse(() => gitPush(':stable'))).kinds, ['branch deleted'])
  t.same((await refuse(() => gitPush('HEAD:a/b'))).kinds, ['changed'], 'git cannot create it beside a')
  const [none, unknown] = ['0', '1'].map((digit) => digit.repeat(40))
  t.same((await refuse(() => rawPush([`${none} ${unknown} refs/heads/new`]))).kinds, ['objects'])
  t.same((await refuse(() => rawPush([`${unknown} ${none} refs/heads/a`]))).kinds, ['changed'])
  t.same((await refuse(() => rawPush([1, 2].map(() => `${none} ${tip} refs/heads/new`)))).kinds, [
    'malformed',
  ])

  const { open } = store.pushes
  store.pushes.open = () => Promise.reject(new StoreUnavailable('away'))
  const away = await refuse(() => gitPush('HEAD:topic'))
  store.pushes.open = open
  t.same(away.kinds, ['unavailable'])
  t.match(away.entries, [{ ...push, kind: 'unavailable', reason: defaultMessage('unavailable') }])

  await server.createUser('stranger')
  const credential = { username: 'x', password: await server.createToken('stranger') }
  const stranger = await refuse(() => tryGit(checkout, ['push', url, 'HEAD:topic'], { credential }))
  t.same(stranger, { kinds: [], entries: [] }, 'the status of the answer tells')
  const { body } = await server.call('GET', '/metrics', { token: metricsToken })
  t.notMatch(body, /owner|demo|refs\/|topic/)
})
