import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Argument, type Command, Option } from 'commander'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { RuleViolation } from '../../domain/rule-violation.ts'
import { checkGit } from '../../git/git-version.ts'
import { setDefaultBranch } from '../../git/history/default-branch.ts'
import { isRefName, readRef, readRefs } from '../../git/history/refs-reader.ts'
import { createBareRepository, inspectRepository } from '../../git/repository.ts'
import { explainOwnerProblem, findOwnerProblem } from '../../git/repository-owner.ts'
import type { Store } from '../../store/store.ts'
import type { Permission, Visibility } from '../../store/tables.ts'
import { formatTime } from '../../store/time.ts'
import { renameDurably } from '../../util/durable.ts'
import { callerPath, findRepository, splitFullName, UsageError } from '../parts/arguments.ts'
import { print, printList } from '../parts/output.ts'
import type { WithStore } from '../parts/with-store.ts'

/** Milliseconds that git may take. */
const GIT_TIMEOUT = 60_000
/** Branches named in an error message. */
const LISTED_BRANCHES = 10
/** A first repository may come before the first start of the server. */
const CREATE = { create: true }

export function addRepositoryCommands(program: Command, withStore: WithStore): void {
  const repo = program.command('repo').description('manage repositories')

  repo
    .command('create')
    .argument('<owner/name>')
    .description('create a bare repository and print its path')
    .option('--private', 'only the owner and users with access can see it')
    .addOption(
      new Option('--object-format <format>', 'hash function of the repository')
        .choices(['sha1', 'sha256'])
        .default('sha1'),
    )
    .action((fullName: string, options: { private?: boolean; objectFormat: ObjectFormat }) =>
      withStore(async (store, { dataDir }) => {
        const { owner, name } = splitFullName(fullName)
        await checkGit()
        // Created under another name and moved when its row is stored, so that no row is without its repository on disk.
        const draft = join(dataDir, 'repositories', `new-${randomBytes(8).toString('hex')}.git`)
        try {
          await createBareRepository(draft, options.objectFormat)
          const created = await store.repositories.create(
            { owner, name, visibility: visibilityOf(options), objectFormat: options.objectFormat },
            (path) => renameDurably(draft, path),
          )
          print(created.path)
        } finally {
          await rm(draft, { recursive: true, force: true })
        }
      }, CREATE),
    )

  repo
    .command('import')
    .argument('<owner/name>')
    .argument('<path>')
    .description('serve an existing bare repository, or the .git of a checkout, where it is')
    .option('--private', 'only the owner and users with access can see it')
    .option(
      '--trust-owner',
      'although other accounts can write its configuration, by which git can run programs',
    )
    .action((fullName: string, path: string, options: { private?: boolean; trustOwner?: boolean }) =>
      withStore(async (store) => {
        const { owner, name } = splitFullName(fullName)
        await checkGit()
        const { trustOwner = false } = options
        const checkOwners = async (folder: string) => {
          const problem = trustOwner ? null : await findOwnerProblem(folder)
          if (problem) throw new RuleViolation(explainOwnerProblem(problem, fullName, folder))
        }
        // Before git reads its configuration. It may be a checkout.
        for (const name of ['.', '.git']) await checkOwners(join(callerPath(path), name))
        const found = await inspectRepository(callerPath(path))
        await checkOwners(found.path)
        const known = await store.repositories.find(owner, name)
        if (trustOwner && known?.path === found.path && !known.managed)
          return store.repositories.trustOwner(known.id)
        await store.repositories.create({
          owner,
          name,
          visibility: visibilityOf(options),
          objectFormat: found.objectFormat,
          path: found.path,
          trustOwner,
        })
      }, CREATE),
    )

  repo
    .command('list')
    .description('list the repositories')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      withStore.reading(async (store) => {
        const rows = (await store.repositories.list()).map(
          ({ owner, name, visibility, object_format, path }) => ({
            name: `${owner}/${name}`,
            visibility,
            object_format,
            path,
          }),
        )
        printList(rows, options.json, 'There are no repositories.')
      }),
    )

  repo
    .command('default-branch')
    .argument('<owner/name>')
    .argument('<branch>')
    .description('set the branch that clones check out and pages show first')
    .action((fullName: string, branch: string) =>
      withStore(async (store) => {
        if (!isRefName(branch)) throw new UsageError(`"${branch}" is not a valid name of a branch`)
        const { path, managed, owner, name } = await findRepository(store, fullName)
        const found = await readRef(path, branch, GIT_TIMEOUT)
        const exists = found?.kind === 'branch'
        const { branches } = await readRefs(path, { count: LISTED_BRANCHES, timeout: GIT_TIMEOUT })
        if (!exists && branches.length > 0) {
          const names = branches.map(({ name }) => name).join(', ')
          throw new RuleViolation(`${owner}/${name} has no branch "${branch}". Its newest branches: ${names}`)
        }
        // The first push may be one to another branch.
        await setDefaultBranch(path, branch, managed && !exists)
      }),
    )

  repo
    .command('delete')
    .argument('<owner/name>')
    .description('delete a repository and its statuses; the files of an imported one stay')
    .action((fullName: string) =>
      withStore(async (store) => {
        const { owner, name } = splitFullName(fullName)
        const deleted = await store.repositories.delete(owner, name)
        if (deleted.managed) await rm(deleted.path, { recursive: true, force: true })
      }),
    )

  repo
    .command('visibility')
    .argument('<owner/name>')
    .addArgument(new Argument('<visibility>').choices(['public', 'private']))
    .description('make a repository public, or visible only to users with access')
    .action((fullName: string, visibility: Visibility) =>
      withStore((store) => {
        const { owner, name } = splitFullName(fullName)
        return store.repositories.setVisibility(owner, name, visibility)
      }),
    )

  repo
    .command('access')
    .argument('<owner/name>')
    .argument('[user]')
    .addArgument(new Argument('[permission]').choices(['read', 'write', 'none']))
    .description('list who has access to a repository and why; with a user, give or remove access')
    .option('--json', 'print the list as one JSON array')
    .action(
      (
        fullName: string,
        userName: string | undefined,
        permission: Permission | 'none' | undefined,
        options: { json?: boolean },
      ) => {
        const { owner, name } = splitFullName(fullName)
        if (userName === undefined)
          return withStore.reading((store) => listAccess(store, owner, name, options.json))
        if (permission === undefined)
          throw new UsageError(`missing access of "${userName}" (expected read, write or none)`)
        return withStore(async (store) => {
          const { id } = await store.users.get(userName)
          await store.collaborators.set(owner, name, id, permission === 'none' ? null : permission)
        })
      },
    )
}

async function listAccess(store: Store, owner: string, name: string, json?: boolean): Promise<void> {
  const rows = (await store.collaborators.list(owner, name)).map((entry) => ({
    user: entry.user ?? 'everyone',
    access: entry.permission,
    reason: entry.reason,
    locked_at: entry.lockedAt === null ? null : formatTime(entry.lockedAt),
  }))
  printList(rows, json, 'Nobody has access.')
}

function visibilityOf(options: { private?: boolean }): Visibility {
  return options.private ? 'private' : 'public'
}
