import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

/**
 * Refuses dependencies without an exact version, and a lock file that was made for another
 * package.json, with which `npm ci` fails or installs something else. Part of `npm run check`.
 */
const root = resolve(import.meta.dirname, '../..')
const read = (file: string) => JSON.parse(readFileSync(resolve(root, file), 'utf8'))
const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies']
const EXACT = /^\d+\.\d+\.\d+(-[\w.-]+)?$/
const problems: string[] = []

const { packages } = read('package-lock.json')
for (const folder of ['', ...read('package.json').workspaces]) {
  const file = folder === '' ? 'package.json' : `${folder}/package.json`
  const [manifest, locked] = [read(file), packages[folder] ?? {}]
  for (const kind of KINDS)
    for (const [name, version] of Object.entries<string>(manifest[kind] ?? {}))
      if (!EXACT.test(version)) problems.push(`${file}: ${kind}: ${name}: ${version} is no exact version`)
  // npm copies what concerns an installation.
  for (const key of new Set(['version', ...KINDS, ...Object.keys(locked)]))
    if (!isDeepStrictEqual(manifest[key], locked[key]))
      problems.push(`package-lock.json: ${key} differs from ${file}; \`npm install\` makes them agree`)
}
for (const problem of problems) process.stderr.write(`${problem}\n`)
process.exitCode = problems.length === 0 ? 0 : 1
