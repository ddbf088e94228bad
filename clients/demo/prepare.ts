import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const cli = resolve(import.meta.dirname, '../../src/cli/main.ts')

/** What the demo works on. All of it lies in `folder`. */
export interface Setup {
  folder: string
  dataDir: string
  token: string
  password: string
  /** Ids of the commits that were pushed, oldest first. */
  commits: string[]
}

const SUBJECTS = ['Build the engine', 'Light the engine', 'Name the rocket']

/** What a worker runs on each pushed commit. */
const CHECK = `#!/bin/sh
echo "Checking $COMMIT_STATUS_BRANCH: three, two, one, lift-off"
`

/**
 * Creates a user, a token and a repository with pushed commits, through the command line and git.
 */
export async function prepare(): Promise<Setup> {
  const folder = await mkdtemp(join(tmpdir(), 'commit-status-demo-'))
  try {
    return await fill(folder)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

async function fill(folder: string): Promise<Setup> {
  const dataDir = join(folder, 'data')
  const password = randomBytes(9).toString('base64url')
  const administer = (args: string[], input?: string) =>
    run(process.execPath, [cli, ...args], { ...process.env, DATA_DIR: dataDir }, folder, input)

  await administer(['user', 'create', 'demo', '--password-stdin'], password)
  const repository = await administer(['repo', 'create', 'demo/rocket'])
  const token = await administer(['token', 'create', 'demo', '--name', 'CI of rocket'])

  const git = (...args: string[]) => run('git', args, { ...process.env, ...AUTHOR }, join(folder, 'rocket'))
  await run(
    'git',
    ['init', '--quiet', '--initial-branch=main', 'rocket'],
    { ...process.env, ...AUTHOR },
    folder,
  )
  const commits: string[] = []
  for (const subject of SUBJECTS) {
    await git('commit', '--quiet', '--allow-empty', '--message', subject)
    commits.push(await git('rev-parse', 'HEAD'))
  }
  const work = join(folder, 'rocket')
  await writeFile(join(work, 'ci.sh'), CHECK, { mode: 0o755 })
  await git('add', 'ci.sh')
  await git('commit', '--quiet', '--message', 'Count down in CI')
  commits.push(await git('rev-parse', 'HEAD'))
  await git('push', '--quiet', repository, 'HEAD:main')
  return { folder, dataDir, token, password, commits }
}

const AUTHOR = {
  GIT_AUTHOR_NAME: 'Demo',
  GIT_AUTHOR_EMAIL: 'demo@example.org',
  GIT_COMMITTER_NAME: 'Demo',
  GIT_COMMITTER_EMAIL: 'demo@example.org',
  // Nothing of the user's own: a commit that is to be signed would ask for a key.
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
}

/** @returns what the command prints, without the last line end */
async function run(
  command: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  cwd: string,
  input?: string,
): Promise<string> {
  const running = promisify(execFile)(command, args, { env, cwd })
  // Only a command that is given something reads it; another one may have ended before a write
  // reaches it.
  if (input === undefined) running.child.stdin?.destroy()
  else running.child.stdin?.on('error', () => {}).end(input)
  return (await running).stdout.trimEnd()
}
