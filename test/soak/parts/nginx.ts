import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { codeBlock, readDocument } from '../../docs/machine.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { untilServed } from '../../helpers/until.ts'
import { requireProgram } from './programs.ts'

/**
 * Starts nginx with the guide's configuration, but for the ports, and without TLS. Installs it.
 *
 * @param buffers whether it buffers what the guide says; otherwise nothing
 */
export async function startNginx(
  t: Test,
  port: number,
  plain: number,
  instances: readonly number[],
  buffers = true,
): Promise<void> {
  requireProgram('nginx')
  const folder = temporaryFolder(t)
  const site = codeBlock(readDocument('src/ops/README.md'), 'proxy_pass')
    .replaceAll('    server 127.0.0.1:3000 fail_timeout=2s;\n', () =>
      instances.map((instance) => `    server 127.0.0.1:${instance} fail_timeout=2s;\n`).join(''),
    )
    .replace('listen 443 ssl', `listen 127.0.0.1:${port}`)
    .replace('listen 80;', `listen 127.0.0.1:${plain};`)
    .replace(/^ *ssl_.*\n/gm, '')
    .replace(/(proxy_(?:request_)?buffering) on;/g, buffers ? '$&' : '$1 off;')
  t.notMatch(site, /:3000\b|\b443\b/)
  for (const name of ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(join(folder, name))
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; worker_processes 1;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    events { worker_connections 8192; }
    http {
      access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
      fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
      ${site}
    }`,
  )
  const nginx = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'inherit' })
  t.teardown(async () => {
    // Killed, it would leave its worker behind.
    nginx.kill('SIGTERM')
    if (nginx.exitCode === null) await once(nginx, 'exit')
  })
  await untilServed(`http://127.0.0.1:${port}/healthz`)
}
