import t from 'tap'
import { shells } from '../../../shell/test/shells.ts'
import { type CommandLineOptions, commandLine } from '../helpers/command-line.ts'
import { privateCa, selfSigned, startHttps, startProxy } from '../helpers/https.ts'
import { environmentOf, placeOf } from '../helpers/run-script.ts'
import { startService } from '../helpers/service.ts'

const first = await startService(t)
const report = ['report', ...placeOf(first), '--state', 'success']
const serverPem = privateCa.replace('ca.pem', 'server.pem')

/** The TypeScript client and the shell client, and the variable by which each trusts a CA. */
const clients = [
  { name: 'TypeScript', trust: 'NODE_EXTRA_CA_CERTS', program: {} },
  ...shells
    .slice(0, 1)
    .map(({ program }) => ({ name: 'shell', trust: 'CURL_CA_BUNDLE', program: { program } })),
]

for (const { name, trust, program } of clients) {
  const send = (env: Record<string, string>, args = report, options: CommandLineOptions = {}) =>
    commandLine(t, args, { ...program, ...options, env: { ...environmentOf(first), ...env } }).finished

  t.test(`${name}: a certificate that is not trusted fails at once with a sentence`, async (t) => {
    for (const [certificate, ca] of [
      [selfSigned, selfSigned],
      [serverPem, privateCa],
    ] as const) {
      const COMMIT_STATUS_URL = await startHttps(t, first.server.url, certificate)
      const start = performance.now()
      const refused = await send({ COMMIT_STATUS_URL })
      t.match(refused, {
        code: 5,
        stdout: '',
        stderr: new RegExp(`was not stored: .*certificate.*${trust}.*\n$`),
      })
      const ran = await send({ COMMIT_STATUS_URL }, ['run', ...placeOf(first), '--', 'sh', '-c', 'exit 3'])
      t.match(ran, { code: 3, stderr: new RegExp(`warning: .*certificate.*${trust}`) })
      t.ok(performance.now() - start < 25_000, `${performance.now() - start} ms`)
      t.match(await send({ COMMIT_STATUS_URL, [trust]: ca }), { code: 0, stderr: '' })
    }
    const COMMIT_STATUS_URL = (await startHttps(t, first.server.url, serverPem)).replace(
      '127.0.0.1',
      'localhost',
    )
    t.match(
      await send({ COMMIT_STATUS_URL, [trust]: privateCa }),
      { code: 5, stderr: /certificate/ },
      'of another host',
    )
  })

  t.test(`${name}: a proxy`, async (t) => {
    const { url, hosts } = await startProxy(t)
    const COMMIT_STATUS_URL = await startHttps(t, first.server.url, serverPem)
    const env = { COMMIT_STATUS_URL, [trust]: privateCa }
    t.match(await send({ ...env, HTTPS_PROXY: url }), { code: 0, stderr: '' })
    t.strictSame(hosts, [new URL(COMMIT_STATUS_URL).host])
    t.match(await send({ ...env, https_proxy: url, NO_PROXY: 'example.org,127.0.0.1' }), {
      code: 0,
      stderr: '',
    })
    t.equal(hosts.length, 1, 'not for hosts in NO_PROXY')
    t.match(await send({ ...env, HTTPS_PROXY: url, no_proxy: '', NO_PROXY: '127.0.0.1' }), { code: 0 })
    t.equal(hosts.length, 1, 'an empty no_proxy does not hide it')
    if (name === 'TypeScript') {
      for (const NO_PROXY of ['127.0.0.0/8', new URL(COMMIT_STATUS_URL).host]) {
        for (const NODE_USE_ENV_PROXY of ['', '1'])
          t.match(
            await send({ ...env, HTTPS_PROXY: url, NO_PROXY, NODE_USE_ENV_PROXY }),
            { code: 0 },
            NO_PROXY,
          )
      }
      t.equal(hosts.length, 1, 'with CIDR and ports')
    }
    t.match(await send({ http_proxy: url }), { code: 0, stderr: '' })
    t.equal(hosts.at(-1), new URL(first.proxy.url).host, 'http:// too')
    const untrusted = await send({ COMMIT_STATUS_URL, HTTPS_PROXY: url })
    t.match(untrusted, { code: 5, stderr: new RegExp(trust) }, 'certificates are verified through it')
  })
}

t.test('a malformed proxy variable is ignored with a warning', async (t) => {
  const env = { ...environmentOf(first), HTTPS_PROXY: 'proxy example' }
  const { finished } = commandLine(t, ['run', ...placeOf(first), '--', 'true'], { env })
  t.match(await finished, {
    code: 0,
    stderr: /^commit-status: HTTPS_PROXY is ignored, since .* not a URL\n$/,
  })
})

t.test('an address that answers slowly is given more time than Node gives it', async (t) => {
  const preload = `import { getDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'
    process.on('exit', () => console.error(getDefaultAutoSelectFamilyAttemptTimeout()))`
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(preload)}`
  const { stderr } = await commandLine(t, report, { env: { ...environmentOf(first), NODE_OPTIONS } }).finished
  t.equal(stderr, '2500\n')
})
