import { mkdir, realpath, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { ObjectFormat } from '../domain/commit-id.ts'
import { createFolder } from '../util/durable.ts'
import { checkRepositoryFiles, namesIn, RepositoryUnavailable } from './repository-health.ts'
import { decodeLatin1, readGit } from './run-git.ts'

export { RepositoryUnavailable }

/** The absolute path of a git directory, without symbolic links, and its object format. */
interface OpenedRepository {
  path: string
  objectFormat: ObjectFormat
}

/** No repository can be opened at a path; the message names the path and the reason. */
export class NotARepository extends Error {
  override readonly name = 'NotARepository'
}

/**
 * Creates an empty bare repository with HEAD at `main`, without git's template files, and missing parent folders. It is not
 * on disk before it is published: git syncs neither `HEAD` nor `config`. Leaves no files behind if it throws.
 */
export async function createBareRepository(path: string, objectFormat: ObjectFormat): Promise<void> {
  await createFolder(dirname(path))
  await mkdir(path)
  const args = ['init', '--quiet', '--bare', '--template=', '--initial-branch=main']
  try {
    await readGit(path, [...args, `--object-format=${objectFormat}`])
  } catch (error) {
    await rm(path, { recursive: true, force: true })
    throw error
  }
}

/**
 * Finds the repository at `path`: a bare repository, the `.git` of a checkout, or the root of a checkout. Does not search
 * parent folders. For a linked worktree or a submodule, finds the git directory that holds its objects.
 *
 * @throws NotARepository if there is none, or its files cannot be opened
 */
export async function inspectRepository(path: string): Promise<OpenedRepository> {
  try {
    const real = await realpath(path)
    const found = await openGitDirectory(real).catch((error: unknown) =>
      openGitDirectory(join(real, '.git')).catch(() => Promise.reject(error)),
    )
    await checkRepositoryFiles(found.path)
    await namesIn(join(found.path, 'refs'), true)
    return found
  } catch (error) {
    const reason = (error instanceof Error ? error.message : String(error)).replace(/^fatal: /, '')
    throw new NotARepository(`${path} is not a git repository that can be opened: ${reason}`, {
      cause: error,
    })
  }
}

async function openGitDirectory(gitDirectory: string): Promise<OpenedRepository> {
  if ((await stat(gitDirectory)).isDirectory()) await namesIn(gitDirectory)
  const args = ['rev-parse', '--git-common-dir', '--show-object-format']
  const output = decodeLatin1(await readGit(gitDirectory, args))
  const end = output.lastIndexOf('\n', output.length - 2)
  const objectFormat = output.slice(end + 1).trim()
  if (objectFormat !== 'sha1' && objectFormat !== 'sha256')
    throw new Error(`unknown object format ${objectFormat}`)
  return { path: await realpath(resolve('/', output.slice(0, end))), objectFormat }
}
