import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'

/**
 * Compiles what is published, since Node.js strips no types below `node_modules`: the programs and all that they import,
 * in the same folders as here, and beside them the files that they read.
 */
const root = resolve(import.meta.dirname, '../..')
const target = resolve(root, 'dist')

rmSync(target, { recursive: true, force: true })
execFileSync(resolve(root, 'node_modules/.bin/tsc'), ['-p', import.meta.dirname], {
  stdio: ['ignore', 'inherit', 'inherit'],
})
const files = [
  'openapi.yaml',
  'src/web/assets',
  'clients/shell/commit-status',
  'clients/typescript/commit-status-client.tgz',
]
for (const path of files) {
  cpSync(resolve(root, path), resolve(target, path), { recursive: true })
}
