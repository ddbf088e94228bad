import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { untilServed } from '../helpers/until.ts'
import { requireProgram } from './parts/programs.ts'

/**
 * Requests on connections that have been idle for exactly as long as a proxy keeps them: none may
 * meet a connection that the server is closing. The proxies never repeat a request.
 */
const CONNECTIONS = 1_000
/**
 * Seconds for which proxies keep idle connections: nginx, this server to other clients, Traefik,
 * Caddy, and load balancers of Google Cloud.
 */
const NGINX = 60
const OTHERS = 65
const TRAEFIK = 90
const CADDY = 120
const GOOGLE = 600

tap.setTimeout(1_500_000)
tap.jobs = 4

const start = (t: Test, environment: Record<string, string>) =>
  startInstance(t, { dataDir: temporaryFolder(t) }, environment)

tap.test('a keep-alive client whose address is trusted', async (t) => {
  const server = await start(t, { TRUSTED_PROXIES: '127.0.0.1' })
  const sockets = await open(t, server.url)
  t.equal(await failures(sockets), 0)
  for (const pause of [OTHERS, TRAEFIK, CADDY, GOOGLE]) {
    t.equal(await failures(sockets, pause), 0, `after ${pause} s`)
    t.ok(openFiles(server) >= CONNECTIONS, 'on the same connections')
  }
})

tap.test('a keep-alive client whose address is not trusted', async (t) => {
  const { url } = await start(t, {})
  const sockets = await open(t, url)
  t.equal(await failures(sockets), 0)
  t.equal(await failures(sockets, OTHERS - 1), 0, 'within the idle time')
  t.comment(
    `${await failures(sockets, OTHERS)} of ${CONNECTIONS} requests failed after exactly the idle time`,
  )
  t.equal(await failures(await open(t, url, 10), 0), 0)
  t.equal(await failures(sockets, 5), CONNECTIONS, 'later all are closed')
})

tap.test('nginx', async (t) => {
  requireProgram('nginx')
  const server = await start(t, { TRUSTED_PROXIES: '127.0.0.1' })
  const [folder, port] = [temporaryFolder(t), await freePort()]
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  for (const place of places) mkdirSync(join(folder, place))
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; worker_processes 1;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    events { worker_connections 8192; }
    http {
      access_log off; keepalive_timeout 1000s; ${places.map((place) => `${place}_temp_path ${folder}/${place};`).join('')}
      upstream status { server ${new URL(server.url).host}; keepalive ${CONNECTIONS}; }
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://status; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off;
        }
      }
    }`,
  )
  await throughProxy(t, server, port, ['nginx', '-p', folder, '-c', join(folder, 'nginx.conf')], NGINX)
})

tap.test('Caddy', async (t) => {
  requireProgram('caddy')
  const server = await start(t, { TRUSTED_PROXIES: '127.0.0.1' })
  const [folder, port] = [temporaryFolder(t), await freePort()]
  const file = join(folder, 'Caddyfile')
  writeFileSync(
    file,
    `{\n\tadmin off\n}\nhttp://127.0.0.1:${port} {\n\treverse_proxy ${new URL(server.url).host} {
\t\ttransport http {\n\t\t\tkeepalive_idle_conns_per_host ${CONNECTIONS}\n\t\t}\n\t}\n}\n`,
  )
  await throughProxy(t, server, port, ['caddy', 'run', '--config', file], CADDY)
})

/** Sends requests through a proxy, again after its idle time, and shortly before and after it. */
async function throughProxy(t: Test, server: Instance, port: number, command: string[], idle: number) {
  const [file = '', ...args] = command
  const proxy = spawn(file, args, { stdio: 'ignore', env: { ...process.env, HOME: temporaryFolder(t) } })
  t.teardown(async () => {
    // Killed, nginx would leave its worker behind.
    proxy.kill('SIGTERM')
    if (proxy.exitCode === null) await once(proxy, 'exit')
  })
  const url = `http://127.0.0.1:${port}`
  await untilServed(`${url}/healthz`)
  const sockets = await open(t, url)
  t.equal(await failures(sockets), 0)
  t.comment(`${openFiles(server)} files of the server are open`)
  for (const pause of [OTHERS, idle, idle - 0.01, idle])
    t.equal(await failures(sockets, pause), 0, `after ${pause} s`)
}

function openFiles({ child }: Instance): number {
  return readdirSync(`/proc/${child.pid}/fd`).length
}

async function open(t: Test, url: string, count = CONNECTIONS): Promise<Socket[]> {
  const { hostname: host, port } = new URL(url)
  const sockets: Socket[] = []
  for (let index = 0; index < count; index++) {
    const socket = connect({ host, port: Number(port) }).on('error', () => {})
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    sockets.push(socket)
  }
  return sockets
}

/** Sends a request on each connection, so many seconds after its last answer, and counts those that fail. */
async function failures(sockets: readonly Socket[], pause = 0): Promise<number> {
  const isAnswered = await Promise.all(
    sockets.map(async (socket) => {
      await setTimeout(pause * 1_000)
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const close = () => resolve(false)
      socket.once('close', close).once('data', (data: Buffer) => {
        socket.off('close', close)
        resolve(data.toString('latin1').startsWith('HTTP/1.1 200 '))
      })
      if (!socket.writable || socket.destroyed) close()
      socket.write('GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n')
      return promise
    }),
  )
  return isAnswered.filter((answered) => !answered).length
}
