import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { publish } from '../util/durable.ts'

/**
 * Packs the typed client for `/assets/commit-status-client.tgz`, so that a job can install the
 * version that matches the server. Runs after `npm ci` and before the server itself is packed,
 * never on a request. The same sources give the same bytes.
 */
const root = resolve(import.meta.dirname, '../..')
const folder = join(root, 'clients/typescript')

if (existsSync(join(root, 'node_modules/.bin/tsc'))) {
  // npm packs no package without a version.
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }
  const target = join(folder, 'commit-status-client.tgz')
  rmSync(target, { force: true })
  // npm packs the modes of files, which come from the umask of whoever cloned and builds.
  process.umask(0o022)
  const files = ['package.json', 'README.md', 'SKILL.md', 'LICENSE', 'commit-status-work.service']
  for (const file of files) chmodSync(join(folder, file), 0o644)
  execFileSync('npm', ['pack', '--silent', '--workspace', folder, '--pack-destination', folder], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await publish(join(folder, `commit-status-client-${version}.tgz`), target)
} else {
  // Without development packages, the server answers 404 and says how to build the client.
  process.stderr.write('The client package is not built, since TypeScript is not installed.\n')
}
