import { mkdir, realpath, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { ObjectFormat } from '../domain/commit-id.ts'
import { createFolder } from '../util/durable.ts'
import { isSystemError } from '../util/expected-errors.ts'
import { cannotOpen, GitFailed, NotARepository, RepositoryUnavailable } from './errors.ts'
import { openUnchecked } from './opened-repository.ts'
import { checkRepositoryFiles, namesIn } from './repository-health.ts'
import { decodeLatin1, readGit } from './run-git.ts'

/**
 * Creates an empty bare repository with HEAD at `main`, without git's template files, and missing
 * parent folders. It is not on disk before it is published: git syncs neither `HEAD` nor `config`.
 * Leaves no files behind if it throws.
 */
export async function createBareRepository(path: string, objectFormat: ObjectFormat): Promise<void> {
  await createFolder(dirname(path))
  await mkdir(path)
  const args = ['init', '--quiet', '--bare', '--template=', '--initial-branch=main']
  try {
    await readGit(openUnchecked(path), [...args, `--object-format=${objectFormat}`])
  } catch (error) {
    await rm(path, { recursive: true, force: true })
    throw error
  }
}

/**
 * Finds the repository at `path`: a bare repository, the `.git` of a checkout, or the root of a
 * checkout. Does not search parent folders. For a linked worktree or a submodule, finds the git
 * directory that holds its objects.
 *
 * Runs git in a repository whose owner is not checked: whoever imports it does that.
 *
 * @throws NotARepository if there is none, or its files cannot be opened
 */
export async function inspectRepository(path: string): Promise<{ path: string; objectFormat: ObjectFormat }> {
  try {
    const real = await realpath(path)
    const repository = await findGitDirectory(real).catch((error: unknown) =>
      findGitDirectory(join(real, '.git')).catch(() => Promise.reject(error)),
    )
    await checkRepositoryFiles(repository.path)
    await namesIn(join(repository.path, 'refs'), true)
    return repository
  } catch (error) {
    const isExpected = error instanceof GitFailed || error instanceof RepositoryUnavailable
    if (!isExpected && !isSystemError(error)) throw error
    const reason = error.message.replace(/^fatal: /, '')
    throw new NotARepository(`${path} is not a git repository that can be opened: ${reason}`, {
      cause: error,
    })
  }
}

async function findGitDirectory(folder: string): Promise<{ path: string; objectFormat: ObjectFormat }> {
  if ((await stat(folder)).isDirectory()) await namesIn(folder)
  const args = ['rev-parse', '--git-common-dir', '--show-object-format']
  const output = decodeLatin1(await readGit(openUnchecked(folder), args))
  const end = output.lastIndexOf('\n', output.length - 2)
  const objectFormat = output.slice(end + 1).trim()
  if (objectFormat !== 'sha1' && objectFormat !== 'sha256')
    throw cannotOpen(folder, `unknown object format ${objectFormat}`)
  return { path: await realpath(resolve('/', output.slice(0, end))), objectFormat }
}
