import { once } from 'node:events'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import type { AppOptions } from '../../src/app.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { replaceGit } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, packedPush, tryGit, workFolder } from './client.ts'
import { beginRefs, beginRpc, namedSpoolFiles, spooledFiles, workersIn } from './raw.ts'

async function start(t: Test, limits: AppOptions['git'] = {}) {
  const server = await startServer(t, { git: limits })
  const { path, commits } = await server.createRepository('owner/demo')
  const authorization = basic('x', await server.createToken('owner'))
  return { server, path, commits, authorization, url: `${server.url}/owner/demo.git` }
}

/** Checks that no files of an unfinished push are left and that the repository still works. */
async function checkUnharmed(t: Test, path: string, url: string, authorization: string): Promise<void> {
  await until(() => workersIn(path).length === 0)
  const left = readdirSync(path, { recursive: true, encoding: 'utf8' })
  t.same(
    left.filter((name) => /incoming|tmp_|\.lock$/.test(name)),
    [],
  )
  await git(path, ['fsck', '--strict'])
  const checkout = await createCheckout(t, url)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:after'], { authorization })
}

t.test('a push with a declared length is accepted', async (t) => {
  const { url, path, authorization } = await start(t)
  const { bytes, id } = await packedPush(t, url)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  request.end(bytes)
  const { status, headers, body } = await answer
  t.equal(status, 200)
  t.equal(headers['content-type'], 'application/x-git-receive-pack-result')
  t.equal(headers['cache-control'], 'no-store')
  t.match(body.toString(), /unpack ok/)
  t.equal(await git(path, ['rev-parse', 'raw']), id)
})

t.test('an aborted push leaves no files behind', async (t) => {
  const { server, url, path, authorization } = await start(t, { maxChildren: 1 })
  const { bytes } = await packedPush(t, url)
  const half = beginRpc(url, 'git-receive-pack', authorization)
  half.request.write(bytes.subarray(0, bytes.length / 2))
  await until(() => spooledFiles().length > 0)
  t.same(workersIn(path), [], 'git does not run before all has arrived')
  t.same(namedSpoolFiles(server.dataDir), [], 'the file has no name')
  half.request.destroy()
  await until(() => spooledFiles().length === 0)

  const large = await packedPush(t, url, 20_000_000)
  const whole = beginRpc(url, 'git-receive-pack', authorization)
  whole.request.end(large.bytes)
  await until(() => readdirSync(join(path, 'objects')).some((name) => name.includes('incoming')))
  whole.request.destroy()
  await checkUnharmed(t, path, url, authorization)
  t.same(spooledFiles(), [])
})

t.test('git stops when a fetch is aborted', async (t) => {
  const { url, path, authorization } = await start(t, { maxChildren: 1 })
  const checkout = await createCheckout(t, url)
  const id = await commit(checkout, 12_000_000)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:large'], { authorization })
  const { request } = beginRpc(url, 'git-upload-pack', authorization)
  request.end(`0032want ${id}\n00000009done\n`)
  const [response] = await once(request, 'response')
  // The client does not read, so git cannot finish.
  response.pause()
  t.ok(workersIn(path).length > 0)
  request.destroy()
  await checkUnharmed(t, path, url, authorization)
})

t.test('an answer whose git fails half-way does not end as if it were complete', async (t) => {
  const { url, commits } = await start(t)
  const ask = (body: string) => {
    const { request, answer } = beginRpc(url, 'git-upload-pack', '')
    request.end(body)
    return answer
  }
  const missing = await ask(`0032want ${'1'.repeat(40)}\n00000009done\n`)
  t.match(missing.body.toString(), /^[0-9a-f]{4}ERR .*not our ref/, 'an error that git explains is complete')
  replaceGit(t, `[ "$1" = upload-pack ] && { printf '0008NAK\\nPACK'; exit 1; }; exec "$git" "$@"`)
  await t.rejects(ask(`0032want ${commits[0]}\n00000009done\n`))
})

t.test('a malformed fetch of a stranger writes no line above debug', async (t) => {
  const { server, commits, authorization } = await start(t)
  const { url, log } = await startInstance(t, server.options, { LOG_LEVEL: 'info' })
  await until(() => log.some((line) => line.includes('listening')))
  const before = log.length
  const said = () => log.slice(before).filter((line) => line.includes('git wrote to standard error'))
  const want = `0032want ${commits[0]}\n0000`
  for (const body of [
    'garbage',
    '',
    '0010want nothing',
    `0032want ${'1'.repeat(40)}\n00000009done\n`,
    `${want}ffff`,
  ]) {
    const { request, answer } = beginRpc(`${url}/owner/demo.git`, 'git-upload-pack', '')
    request.end(body)
    await answer.catch(() => {})
  }
  t.same(log.slice(before), [])
  const { request, answer } = beginRpc(`${url}/owner/demo.git`, 'git-upload-pack', authorization)
  request.end('garbage')
  await answer
  await until(() => said().length === 1)
  t.match(said()[0], 'bad line length')
})

t.test('clients that disconnect at any moment are no errors of the server', async (t) => {
  const { server, path, commits } = await start(t)
  const authorization = basic('x', await server.createToken('owner'))
  const { url, log, call } = await startInstance(t, server.options, { LOG_LEVEL: 'info' })
  const remote = `${url}/owner/demo.git`
  const { bytes } = await packedPush(t, remote)
  const want = `0032want ${commits[0]}\n00000009done\n`
  for (let delay = 0; delay < 60; delay += 3) {
    const requests = [
      beginRpc(remote, 'git-receive-pack', authorization),
      beginRpc(remote, 'git-upload-pack', ''),
      beginRefs(remote, {}),
    ]
    requests[0]?.request.end(bytes)
    requests[1]?.request.end(want)
    await setTimeout(delay)
    for (const { request } of requests) request.destroy()
  }
  await until(() => workersIn(path).length === 0)
  t.equal((await call('GET', '/healthz')).status, 200)
  t.same(
    log.filter((line) => /"level":"(error|fatal)"|"level":[56]0/.test(line)),
    [],
  )
})

t.test('a push that is too large is refused with 413', async (t) => {
  const { url, path, authorization } = await start(t, { maxBytes: 200_000, maxChildren: 1 })
  const { bytes, checkout } = await packedPush(t, url)

  const declared = beginRpc(url, 'git-receive-pack', authorization, {
    'content-length': String(bytes.length),
    expect: '100-continue',
  })
  declared.request.on('continue', () => t.fail('the server must not ask for the body'))
  declared.request.flushHeaders()
  t.equal((await declared.answer).status, 413)
  declared.request.destroy()

  const chunked = beginRpc(url, 'git-receive-pack', authorization)
  chunked.request.end(bytes)
  const { status, headers, body } = await chunked.answer
  t.equal(status, 413)
  t.equal(headers['content-type'], 'text/plain; charset=utf-8')
  t.equal(body.toString(), 'The body is larger than 200000 bytes.\n')

  const inflated = beginRpc(url, 'git-receive-pack', authorization, { 'content-encoding': 'gzip' })
  inflated.request.end(gzipSync(Buffer.alloc(5_000_000)))
  t.equal((await inflated.answer).status, 413)

  const real = await tryGit(checkout, ['push', 'origin', 'HEAD:large'], {
    authorization,
    config: { 'http.postBuffer': '65536' },
  })
  t.match(real.stderr, /413/)
  await checkUnharmed(t, path, url, authorization)
})

t.test('a client that sends its whole body before it reads receives the answer', async (t) => {
  const { url, authorization } = await start(t, { maxBytes: 200_000 })
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  const head = (framing: string) =>
    `POST /owner/demo.git/git-receive-pack HTTP/1.1\r\nHost: test\r\nAuthorization: ${authorization}\r\n` +
    `Content-Type: application/x-git-receive-pack-request\r\n${framing}\r\n\r\n`
  const send = (bytes: string | Buffer) =>
    new Promise<void>((resolve, reject) =>
      socket.write(bytes, (error) => (error ? reject(error) : resolve())),
    )

  // An endless list of commands: git keeps reading.
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main\n`
  const large = Buffer.from(`00${(command.length + 4).toString(16)}${command}`.repeat(10_000))
  const small = gzipSync(large)
  t.ok(small.length < 64 * 1024, 'small enough to be discarded without closing the connection')
  await send(head(`Content-Encoding: gzip\r\nContent-Length: ${small.length}`))
  await send(small)
  // The server waits for two seconds at most for what it discards.
  const { now } = performance
  t.capture(performance, 'now', () => now.call(performance) / 10)
  await send(head('Transfer-Encoding: chunked'))
  for (let count = 0; count < 12; count++) {
    await send(`${large.length.toString(16)}\r\n`)
    await send(large)
    await send('\r\n')
  }
  socket.end('0\r\n\r\n')
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  t.equal(text.match(/HTTP\/1\.1 413 /g)?.length, 2, 'both answers arrive')
})

t.test('unsupported media types and encodings are refused', async (t) => {
  const { url, authorization } = await start(t)
  const send = async (headers: Record<string, string>, body: string | Buffer) => {
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization, headers)
    request.end(body)
    return (await answer).status
  }
  t.equal(await send({ 'content-encoding': 'gzip' }, 'not zipped'), 400)
  t.equal(await send({ 'content-encoding': 'gzip' }, gzipSync('0000').subarray(0, 12)), 400)
  t.equal(await send({ 'content-encoding': 'br' }, '0000'), 415)
  t.equal(await send({ 'content-type': 'application/json' }, '0000'), 415)
  t.equal(await send({ 'content-type': 'application/x-git-upload-pack-request' }, '0000'), 415)
  t.equal(await send({ 'content-encoding': 'x-gzip' }, gzipSync('0000')), 200)
  t.equal(await send({}, '0000'), 200)
})

t.test('"100 Continue" is sent only to clients that may push', async (t) => {
  const { url, authorization } = await start(t)
  const ask = async (caller: string) => {
    let continued = false
    const headers = { expect: '100-continue', 'content-length': '4' }
    const { request, answer } = beginRpc(url, 'git-receive-pack', caller, headers)
    request.on('continue', () => {
      continued = true
      request.end('0000')
    })
    request.flushHeaders()
    const { status } = await answer
    request.destroy()
    return { status, continued }
  }
  t.same(await ask(authorization), { status: 200, continued: true })
  t.same(await ask(basic('x', 'unknown')), { status: 401, continued: false })
})

t.test('a request that takes too long is stopped', async (t) => {
  const { server, url, path, authorization } = await start(t, { timeout: 3_000, maxChildren: 1 })
  const { bytes } = await packedPush(t, url)
  const slow = join(workFolder(t), 'slow')
  writeFileSync(slow, '')
  replaceGit(t, `[ -e ${slow} ] && exec sleep 60; exec "$git" "$@"`)
  const since = performance.now()
  for (const service of ['git-receive-pack', 'git-upload-pack'] as const) {
    const { request, answer } = beginRpc(url, service, authorization)
    request.end(bytes)
    const { status, body } = await answer
    if (service === 'git-upload-pack') t.equal(status, 503)
    else t.match(`${status} ${body}`, /^200 .*ng \S+ Git took longer than it may here, and was stopped\./s)
  }
  t.ok(performance.now() - since < 25_000)
  rmSync(slow)
  await until(async () => (await beginRefs(url, {}).answer).status === 200)
  // An honest push may take longer than these three seconds on a busy machine.
  const usual = await startInstance(t, server.options)
  await checkUnharmed(t, path, `${usual.url}/owner/demo.git`, authorization)
})

t.test('a repository whose files are missing answers 503, but 404 to strangers', async (t) => {
  const { server, url, path, authorization } = await start(t, { maxChildren: 1 })
  const stranger = basic('x', await server.createToken('stranger'))
  await asAdministrator(server.store).repositories.setVisibility({ owner: 'owner', name: 'demo' }, 'private')
  const folder = workFolder(t)
  await rename(path, join(folder, 'away'))
  const ask = (caller: string) =>
    fetch(`${url}/info/refs?service=git-upload-pack`, { headers: { authorization: caller } })
  const answer = await ask(authorization)
  t.equal(answer.status, 503)
  t.equal(await answer.text(), 'The service is temporarily unavailable. Try again in a few seconds.\n')
  t.equal((await ask(stranger)).status, 404)
  await rename(join(folder, 'away'), path)
  t.equal((await ask(authorization)).status, 200)
})
