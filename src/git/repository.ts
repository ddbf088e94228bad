import { execFile } from 'node:child_process'
import { mkdir, realpath, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { ObjectFormat } from '../util/commit-id.ts'
import { createFolder, syncTree } from '../util/durable.ts'
import { gitEnvironment } from './environment.ts'
import { checkRepositoryFiles, RepositoryUnavailable } from './repository-health.ts'

export { RepositoryUnavailable }

/** No repository can be opened at a path; the message names the path and the reason. */
export class NotARepository extends Error {
  override readonly name = 'NotARepository'
}

const run = promisify(execFile)

/**
 * Creates an empty bare repository with HEAD at `main`, without git's template files, and missing parent folders. Syncs the
 * repository to disk, because git syncs neither `HEAD` nor `config`.
 *
 * @param path absolute path of the folder to create
 * @throws git's error or the system's, `EEXIST` if `path` exists; then no files are left behind
 */
export async function createBareRepository(path: string, objectFormat: ObjectFormat): Promise<void> {
  await createFolder(dirname(path))
  await mkdir(path)
  const args = ['init', '--quiet', '--bare', '--template=', '--initial-branch=main']
  try {
    await run('git', [...args, `--object-format=${objectFormat}`, '--', path], { env: gitEnvironment(path) })
    await syncTree(path)
  } catch (error) {
    await rm(path, { recursive: true, force: true })
    throw error
  }
}

/**
 * Finds the repository at `path`: a bare repository, the `.git` of a checkout, or the root of a checkout. Does not search
 * parent folders. For a linked worktree or a submodule, finds the git directory that holds its objects.
 *
 * @param path absolute, or relative to the working directory of this process
 * @returns the absolute path of its git directory, without symbolic links, and its object format
 * @throws NotARepository if there is none, or its files cannot be opened
 */
export async function inspectRepository(path: string): Promise<{ path: string; objectFormat: ObjectFormat }> {
  let found: Repository
  try {
    const real = await realpath(path)
    found = await open(real).catch((error: unknown) =>
      open(join(real, '.git')).catch(() => Promise.reject(error)),
    )
    await checkRepositoryFiles(found.path)
  } catch (error) {
    throw new NotARepository(`${path} is not a git repository that can be opened: ${reason(error)}`, {
      cause: error,
    })
  }
  return found
}

type Repository = { path: string; objectFormat: ObjectFormat }

async function open(gitDirectory: string): Promise<Repository> {
  // Overrides the configured work tree: git fails if it does not exist.
  const args = [
    `--git-dir=${gitDirectory}`,
    '--work-tree=/',
    'rev-parse',
    '--git-common-dir',
    '--show-object-format',
  ]
  const { stdout } = await run('git', args, { cwd: '/', env: gitEnvironment(gitDirectory) })
  const end = stdout.lastIndexOf('\n', stdout.length - 2)
  const objectFormat = stdout.slice(end + 1).trim()
  if (objectFormat !== 'sha1' && objectFormat !== 'sha256')
    throw new Error(`unknown object format ${objectFormat}`)
  return { path: await realpath(resolve('/', stdout.slice(0, end))), objectFormat }
}

function reason(error: unknown): string {
  if (
    error instanceof Error &&
    'stderr' in error &&
    typeof error.stderr === 'string' &&
    error.stderr !== ''
  ) {
    return error.stderr.trim().replace(/^fatal: /, '')
  }
  return error instanceof Error ? error.message : String(error)
}
