import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { codeBlock, readDocument } from '../../docs/machine.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { untilServed } from '../../helpers/until.ts'
import { requireProgram } from './programs.ts'

/** Starts Caddy with the guide's configuration, but for the ports, and without TLS. Installs it. */
export async function startCaddy(t: Test, port: number, instance: string): Promise<void> {
  requireProgram('caddy')
  const folder = temporaryFolder(t)
  const shipped = codeBlock(readDocument('src/ops/README.md'), 'reverse_proxy')
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, shipped)
  execFileSync('caddy', ['validate', '--config', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  // For any Host, as nginx has it: attackers send what they like.
  const site = shipped
    .replace('status.example.org {', `http://:${port} {\n\tbind 127.0.0.1`)
    .replace('127.0.0.1:3000', new URL(instance).host)
  writeFileSync(file, `{\n\tadmin off\n}\n${site}`)
  const env = { ...process.env, HOME: folder }
  const caddy = spawn('caddy', ['run', '--config', file], { env, stdio: 'ignore' })
  t.teardown(async () => {
    caddy.kill()
    if (caddy.exitCode === null) await once(caddy, 'exit')
  })
  await untilServed(`http://127.0.0.1:${port}/healthz`)
}
