import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { asAdministrator } from '../../../../test/helpers/changes.ts'
import { capture } from '../../../../test/helpers/cli.ts'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { git, gitWith } from '../../../../test/helpers/git.ts'
import type { RepositoryOptions } from '../../../../test/helpers/records.ts'
import { startServer, type TestServer } from '../../../../test/helpers/server.ts'
import { until } from '../../../../test/helpers/until.ts'
import { land } from '../../src/cli/land/land.ts'
import { type CommandLineOptions, commandLine, type RunningProcess } from './command-line.ts'
import { quickTimes } from './quick-lander.ts'

/** A server with a repository whose `main` requires `ci/test`, and a checkout of it. */
export interface LandingPlace {
  server: TestServer
  token: string
  repository: Awaited<ReturnType<TestServer['createRepository']>>
  /** Folder of the repository on the server. */
  path: string
  checkout: string
  /** The environment of a landing. */
  environment: Record<string, string>
  /** Commits files on top of `parent`, without touching the work tree, and returns the commit. */
  write(parent: string, files: Record<string, string>): string
  /** Starts `commit-status land` in the checkout. */
  land(args: readonly string[], options?: CommandLineOptions): RunningProcess
  /** Resolves with the commit that CI is to build for a landing. */
  topic(commit: string): Promise<string>
  report(sha: string, state: string, context?: string): Promise<unknown>
  /** Returns the id of a ref on the server; empty if there is none. */
  ref(name: string): string
  /** Waits for a condition about refs on the server. */
  until(condition: () => boolean): Promise<void>
  /** Returns the names of the refs on the server that a landing creates. */
  leftovers(): string[]
}

/** A place that is the working directory, where landings have `quickTimes`. */
export interface QuickLandingPlace extends Omit<LandingPlace, 'land'> {
  /** Lands in this process, which is faster. */
  land(args: string[], env?: Record<string, string>): ReturnType<typeof capture>
  /** Lands in a process of its own. */
  landAlone: LandingPlace['land']
  /** Returns what `main` is at on the server. */
  main(): string
  removeLeftovers(): void
}

/** The program with `quickTimes`. */
export const quickLander = [process.execPath, resolve(import.meta.dirname, 'quick-lander.ts')]

/** Starts all of it; everything ends with the test. */
export async function startLanding(t: Test, options: RepositoryOptions = {}): Promise<LandingPlace> {
  const server = await startServer(t)
  const repository = await server.createRepository('acme/rocket', { ...options, commits: 0 })
  const token = await server.createToken('acme')
  const { path } = repository
  const checkout = join(temporaryFolder(t), 'checkout')
  const format = `--object-format=${options.objectFormat ?? 'sha1'}`
  git('/', 'init', '--quiet', format, '--initial-branch=work', checkout)
  git(checkout, 'remote', 'add', 'origin', `${server.url}/acme/rocket.git`)

  function write(parent: string, files: Record<string, string>): string {
    const changes = Object.entries(files).map(
      ([name, text]) => `M 100644 inline ${name}\ndata ${Buffer.byteLength(text)}\n${text}\n`,
    )
    const head = `commit refs/heads/draft\nmark :1\ncommitter Ann <ann@example.org> ${clock++} +0200\ndata 6\nChange\n`
    const from = parent && `from ${parent}\n`
    return gitWith(
      checkout,
      `${parent ? '' : 'reset refs/heads/draft\n'}${head}${from}${changes.join('')}\nget-mark :1\n`,
      'fast-import',
      '--quiet',
      '--force',
      '--date-format=raw-permissive',
    )
  }
  let clock = 1_700_000_000
  const base = write('', { 'a.txt': '1\n2\n3\n', 'b.txt': 'b\n' })
  git(checkout, 'push', '--quiet', path, `${base}:refs/heads/main`)
  git(checkout, 'reset', '--quiet', '--hard', base)
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: 'main',
    required: ['ci/test'],
    bypass: [],
  })

  const environment = {
    PATH: process.env.PATH ?? '',
    HOME: checkout,
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_TOKEN: token,
  }
  const ref = (name: string) => readIfThere(join(path, name)).trim() || (packedRefs(path).get(name) ?? '')
  return {
    server,
    token,
    repository,
    path,
    checkout,
    environment,
    write,
    ref,
    until,
    land: (args, own) =>
      commandLine(t, ['land', ...args], { cwd: checkout, ...own, env: { ...environment, ...own?.env } }),
    async topic(commit) {
      const name = `refs/heads/land/main/${commit.slice(0, 12)}`
      await until(() => ref(name) !== '')
      return ref(name)
    },
    report: (sha, state, context = 'ci/test') =>
      server.report('acme/rocket', sha, { state, context, target_url: 'https://ci.example.org/5' }, token),
    leftovers() {
      return [...readRefs(path).keys()].filter((name) => /^refs\/(heads\/land|landing)\//.test(name)).sort()
    },
  }
}

/** Starts all of it, and goes to the checkout until the test ends. */
export async function startQuickLanding(t: Test): Promise<QuickLandingPlace> {
  const place = await startLanding(t)
  const { environment, path, leftovers } = place
  const home = process.cwd()
  process.chdir(place.checkout)
  t.teardown(() => process.chdir(home))
  return {
    ...place,
    land: (args, env = {}) =>
      capture(() => land(args, { ...environment, ...env }, process, () => quickTimes)),
    landAlone: (args, options) => place.land(args, { program: quickLander, ...options }),
    main: () => place.ref('refs/heads/main'),
    removeLeftovers() {
      const deletions = leftovers().map((name) => `delete ${name}\n`)
      gitWith(path, deletions.join(''), 'update-ref', '--stdin')
    },
  }
}

/**
 * Returns the ids of a repository's refs by name, from their files: starting git for each look at
 * refs that are waited for takes most of a test's time.
 */
function readRefs(path: string): Map<string, string> {
  // Git removes folders that are empty meanwhile.
  const loose = globSync('refs/**', { cwd: path })
    .map((name) => [name, readIfThere(join(path, name)).trim()] as const)
    .filter(([name, id]) => id !== '' && !name.endsWith('.lock'))
  return new Map([...packedRefs(path), ...loose])
}

/** Returns the refs that the server has packed, after many pushes. It removes their files afterwards. */
function packedRefs(path: string): Map<string, string> {
  const lines = readIfThere(join(path, 'packed-refs')).matchAll(/^([0-9a-f]{40,64}) (.+)$/gm)
  return new Map([...lines].map(([, id = '', name = '']) => [name, id]))
}

/** Returns the text of a file; empty if it is a folder, or git has just removed it. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
