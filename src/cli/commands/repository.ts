import { join } from 'node:path'
import { Argument, type Command, Option } from 'commander'
import type { Config } from '../../config.ts'
import { OBJECT_FORMATS, type ObjectFormat } from '../../domain/commit-id.ts'
import { Refusal } from '../../domain/refusal.ts'
import { checkGit } from '../../git/git-version.ts'
import { isBranchName } from '../../git/refs/read-refs.ts'
import { inspectRepository } from '../../git/repository.ts'
import { isShallowClone } from '../../git/repository-health.ts'
import { explainOwnerProblem, findOwnerProblem } from '../../git/repository-owner.ts'
import { createRepositories } from '../../repositories/create.ts'
import { checkMayFollow, chooseDefaultBranch, followPushes } from '../../repositories/default-branch.ts'
import { deleteRepository } from '../../repositories/delete.ts'
import type { NewRepository, Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { VISIBILITIES, type Visibility } from '../../store/tables.ts'
import { callerPath, findRepository, splitFullName, UsageError } from '../parts/arguments.ts'
import { print, printList, say } from '../parts/output.ts'
import { fromOption, readObjects } from '../parts/read-objects.ts'
import {
  asAdministrator,
  changeStore,
  creatingStore,
  readingStore,
  type Settings,
  withStore,
} from '../parts/with-store.ts'
import { addAccessCommand } from './repository-access.ts'
import { addReportersCommand } from './repository-reporters.ts'

const PUBLIC = new Option('--public', 'everyone can see it (default: see DEFAULT_VISIBILITY)').conflicts(
  'private',
)
const PRIVATE = new Option('--private', 'only the owner and users with access can see it')

interface VisibilityOptions {
  public?: boolean
  private?: boolean
}

interface CreateOptions extends VisibilityOptions {
  objectFormat: ObjectFormat
  from?: string
}

interface ImportOptions extends VisibilityOptions {
  trustOwner?: boolean
}

export function addRepositoryCommands(program: Command, settings: Settings): void {
  const repo = program.command('repo').description('manage repositories')

  repo
    .command('create [owner/name]')
    .description('create a bare repository and print its path')
    .addOption(PUBLIC)
    .addOption(PRIVATE)
    .addOption(
      new Option('--object-format <format>', 'hash function of the repository')
        .choices(OBJECT_FORMATS)
        .default('sha1'),
    )
    .addOption(fromOption('all repositories or none, with the fields of \'repo list\'; "path" is ignored'))
    .action((fullName: string | undefined, { from, ...options }: CreateOptions) =>
      creatingStore(settings, async (store, config) => {
        const defaults = { visibility: visibilityOf(options, config), object_format: options.objectFormat }
        const objects =
          fullName === undefined || from !== undefined
            ? await readObjects(fullName, from, ['visibility', 'object_format', 'path'])
            : [{ name: fullName }]
        const repositories = objects.map((object) => newRepository({ ...defaults, ...object }))
        await checkGit()
        const newRepositories = await createRepositories(asAdministrator(store), store, repositories)
        await describeCreated(store, newRepositories)
        for (const { path } of newRepositories) print(path)
      }),
    )

  repo
    .command('import <owner/name> <path>')
    .description('serve an existing bare repository, or the .git of a checkout, where it is')
    .addOption(PUBLIC)
    .addOption(PRIVATE)
    .option(
      '--trust-owner',
      'although other accounts can write its configuration, by which git can run programs',
    )
    .action((fullName: string, path: string, { trustOwner = false, ...options }: ImportOptions) =>
      creatingStore(settings, async (store, config) => {
        const { owner, name } = splitFullName(fullName)
        await checkGit()
        const checkOwners = async (folder: string) => {
          const problem = trustOwner ? null : await findOwnerProblem(folder)
          if (problem) throw new Refusal(explainOwnerProblem(problem, fullName, folder))
        }

        // Before git reads its configuration. It may be a checkout.
        for (const name of ['.', '.git']) await checkOwners(join(callerPath(path), name))
        const inspected = await inspectRepository(callerPath(path))
        await checkOwners(inspected.path)

        const existing = await store.repositories.find(owner, name)
        if (trustOwner && existing?.path === inspected.path && !existing.managed)
          return asAdministrator(store)((change) => store.repositories.trustOwner(change, existing.id))

        if (await isShallowClone(inspected.path))
          throw new Refusal(
            `${inspected.path} is a shallow clone, without older commits. Fetch those with: git fetch --unshallow`,
          )

        const repository = {
          owner,
          name,
          visibility: visibilityOf(options, config),
          objectFormat: inspected.objectFormat,
          path: inspected.path,
          trustOwner,
        }
        const create = asAdministrator(store)((change) => store.repositories.create(change, repository))
        await describeCreated(store, [await create])
      }),
    )

  repo
    .command('list')
    .description('list the repositories')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      readingStore(settings, async (store) => {
        const rows = (await store.repositories.list()).map(
          ({ owner, name, visibility, objectFormat, path }) => ({
            name: `${owner}/${name}`,
            visibility,
            object_format: objectFormat,
            path,
          }),
        )
        await printList(rows, options.json, 'There are no repositories.')
      }),
    )

  repo
    .command('default-branch <owner/name> [branch]')
    .description('set the branch that clones check out and pages show first')
    .option('--follow', 'when a push deletes it, take the branch that continues it: for mirrors')
    .option('--no-follow', 'refuse that, as by default')
    .action((fullName: string, branch: string | undefined, { follow }: { follow?: boolean }) =>
      withStore(settings, async (store) => {
        if (branch === undefined && follow === undefined)
          throw new UsageError('give a branch, or --follow or --no-follow')
        if (branch !== undefined && !isBranchName(branch))
          throw new UsageError(`"${branch}" is not a valid name of a branch`)
        const repository = await findRepository(store, fullName)
        const transact = asAdministrator(store)
        // Before the first of two changes.
        if (follow !== undefined) checkMayFollow(repository)
        if (branch !== undefined) await chooseDefaultBranch(transact, store, repository, branch)
        if (follow !== undefined) await followPushes(transact, store, repository, follow)
      }),
    )

  repo
    .command('delete <owner/name>')
    .description('delete a repository and its statuses; the files of an imported one stay')
    .action((fullName: string) =>
      withStore(settings, async (store) => {
        const problem = await deleteRepository(asAdministrator(store), store, splitFullName(fullName))
        if (problem) say(`${fullName} is deleted. The server will remove what is left: ${problem.message}`)
      }),
    )

  repo
    .command('visibility <owner/name>')
    .addArgument(new Argument('<visibility>').choices(VISIBILITIES))
    .description('make a repository public, or visible only to users with access')
    .action((fullName: string, visibility: Visibility) =>
      changeStore(settings, (change, store) =>
        store.repositories.setVisibility(change, splitFullName(fullName), visibility),
      ),
    )

  addAccessCommand(repo, settings)
  addReportersCommand(repo, settings)

  repo
    .command('rename <owner/name> <new-owner/name>')
    .description('rename a repository, or move it to another owner; the name before stays reserved')
    .action((from: string, to: string) =>
      withStore(settings, async (store) => {
        const names = [splitFullName(from), splitFullName(to)] as const
        const { isReserved } = await asAdministrator(store)((change) =>
          store.repositories.rename(change, ...names),
        )
        if (isReserved)
          say(`${from} is reserved: nobody else's repository gets this name until "repo release ${from}".`)
      }),
    )

  repo
    .command('reserved [owner]')
    .description('list the names that repositories had, and that no other repository gets')
    .option('--json', 'print one JSON array')
    .action((owner: string | undefined, options: { json?: boolean }) =>
      readingStore(settings, async (store) => {
        const rows = (await store.reservedNames.list(owner)).map(({ name, repository, since }) => {
          return { name, repository, since }
        })
        await printList(rows, options.json, 'There are no reserved names.')
      }),
    )

  repo
    .command('release <owner/name>')
    .description('release a reserved name; clients that still use it may report to its next repository')
    .action((fullName: string) =>
      changeStore(settings, (change, store) => store.reservedNames.release(change, splitFullName(fullName))),
    )
}

function visibilityOf(options: VisibilityOptions, { defaultVisibility }: Config): Visibility {
  if (options.public) return 'public'
  return options.private ? 'private' : defaultVisibility
}

/** @throws UsageError for a value that `list --json` does not print */
function newRepository(fields: { name: string; visibility: string; object_format: string }): NewRepository {
  const visibility = VISIBILITIES.find((known) => known === fields.visibility)
  const objectFormat = OBJECT_FORMATS.find((known) => known === fields.object_format)
  if (!visibility) throw new UsageError(`${fields.name}: "visibility" is not ${VISIBILITIES.join(' or ')}`)
  if (!objectFormat)
    throw new UsageError(`${fields.name}: "object_format" is not ${OBJECT_FORMATS.join(' or ')}`)
  return { ...splitFullName(fields.name), visibility, objectFormat }
}

/** Says who can see new repositories, and which of them nobody administers. */
async function describeCreated(store: Store, repositories: readonly Repository[]): Promise<void> {
  for (const { owner, name, visibility } of repositories) {
    const who = visibility === 'public' ? 'everyone' : 'its owner and users with access'
    say(`${owner}/${name} is ${visibility}: ${who} can see it.`)
  }
  for (const owner of new Set(repositories.map(({ owner }) => owner)))
    if (!(await store.users.find(owner)) && (await store.members.list(owner)).length === 0)
      say(
        `warning: ${owner} is a group without members. Add one with: commit-status-admin group member ${owner} USER admin`,
      )
}
