import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, resolve } from 'node:path'

/**
 * Runs the test files that belong to what was changed since a commit (default: since the last one),
 * committed or not: `npm run affected -- [COMMIT]`. With `--list` it prints them, the nearest
 * first.
 */
const root = resolve(import.meta.dirname, '..')
/** They assemble everything, so that nearly every test depends on every file by way of them. */
const ASSEMBLY = ['src/app.ts', 'src/server.ts', 'src/cli/main.ts', 'src/cli/run.ts', 'src/cli/program.ts']
/**
 * Folders of `src` whose files take part in every request, so that the tests of all requests see
 * what they do.
 */
const IN_EVERY_REQUEST = ['http', 'replies']
const REQUESTS = ['test/server.test.ts', 'test/api/', 'test/auth/', 'test/http/', 'test/web/']

if (process.argv[1] === import.meta.filename) {
  const [commit = 'HEAD'] = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
  const tests = affectedTests(changedFiles(commit))
  if (process.argv.includes('--list')) process.stdout.write(tests.map((test) => `${test}\n`).join(''))
  else if (tests.length > 0) {
    const run = spawnSync(process.execPath, [join(import.meta.dirname, 'run.ts'), ...tests], {
      stdio: 'inherit',
    })
    process.exitCode = run.status ?? 1
  }
}

/** Returns the paths of files that differ from a commit, untracked ones included. */
export function changedFiles(commit: string): string[] {
  return [
    ...gitLines('diff', '--name-only', '--no-renames', commit),
    ...gitLines('ls-files', '--others', '--exclude-standard'),
  ]
}

/**
 * Returns the test files that depend on files, the nearest first. A file depends on those that it
 * imports, and on those that it names in a string: programs that it starts, the contract,
 * documents, and folders whose files it reads. Of the tests that only depend on a file because they
 * start a server or the command line, those belong to it that are in the folder of its own folder
 * of `src`, or of one that imports it.
 */
export function affectedTests(changed: readonly string[]): string[] {
  const files = [
    ...new Set([...gitLines('ls-files', '--cached', '--others', '--exclude-standard'), ...changed]),
  ]
  const places = new Set(files.flatMap((file) => [file, ...foldersOf(file)]))
  const users = new Map<string, string[]>()
  for (const file of files.filter((name) => /\.(ts|mjs)$/.test(name) && existsSync(join(root, name)))) {
    for (const [, text = ''] of readFileSync(join(root, file), 'utf8').matchAll(
      /['"`]([\w./-]*\w[\w./-]*)['"`]/g,
    )) {
      for (const place of [normalize(join(dirname(file), text)), normalize(text)])
        if (places.has(place)) users.set(place, [...(users.get(place) ?? []), file])
    }
  }
  // A map keeps the order in which files are found: breadth first.
  const found = new Set(changed.flatMap((file) => [file, ...foldersOf(file)]))
  for (const place of found) {
    if (!ASSEMBLY.includes(place)) for (const user of users.get(place) ?? []) found.add(user)
  }
  const importers = changed.flatMap((file) => users.get(file) ?? [])
  const homes = [...changed.flatMap(testFolders), ...importers.flatMap(testFolders)]
  for (const home of homes) for (const file of files) if (file.startsWith(home)) found.add(file)
  return [...found].filter((file) => file.endsWith('.test.ts') && existsSync(join(root, file)))
}

/**
 * Returns how the paths of the tests begin that see what a file of `src` or of the contract does in
 * a running program.
 */
function testFolders(file: string): string[] {
  if (/^(openapi\.yaml|generated\/)/.test(file)) return ['test/api/', 'test/contract/']
  const [, folder] = /^src\/([^/]+)\//.exec(file) ?? []
  if (folder === undefined) return file.startsWith('src/') ? REQUESTS : []
  return [`test/${folder}/`, ...(IN_EVERY_REQUEST.includes(folder) ? REQUESTS : [])]
}

/**
 * Returns the folders above a file, except those with a name of one word: most strings that equal
 * one mean something else.
 */
function foldersOf(file: string): string[] {
  const parts = file.split('/').slice(0, -1)
  return parts
    .map((_, index) => parts.slice(0, index + 1).join('/'))
    .filter((path) => path.includes('/') || path === 'src')
}

function gitLines(...args: string[]): string[] {
  const lines = execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1e8 }).split('\n')
  return lines.filter((line) => line !== '')
}
