import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createFastFolder } from './helpers/fast-folder.ts'
import { prepareDatabases } from './helpers/prepare-databases.ts'

/**
 * Changes the rules and the authentication one operator at a time, and lists the changes that no
 * test of them notices: `npm run mutants`, with options of Stryker such as `--mutate
 * src/auth/token.ts`. Takes hours.
 */
const root = resolve(import.meta.dirname, '..')
const folder = createFastFolder()
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const databases = await prepareDatabases()
const { status } = spawnSync(join(root, 'node_modules/.bin/stryker'), ['run', ...process.argv.slice(2)], {
  cwd: root,
  env: {
    ...process.env,
    ...databases.environment,
    TAP_TIMEOUT: '600',
    TMPDIR: folder,
    NODE_COMPILE_CACHE: join(folder, 'compile-cache'),
    // Stryker starts the `node` that it finds.
    PATH: `${join(root, 'node_modules/.bin')}:${process.env.PATH}`,
  },
  stdio: 'inherit',
})
await databases.remove()
process.exitCode = status ?? 1
