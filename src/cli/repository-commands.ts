import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Argument, type Command, Option } from 'commander'
import { gitDirOf } from '../git/git-dir.ts'
import { checkGit } from '../git/git-version.ts'
import { createBareRepository, inspectRepository, type ObjectFormat } from '../git/repository.ts'
import { RuleViolation } from '../store/rule-violation.ts'
import type { Permission, Visibility } from '../store/tables.ts'
import { renameDurably } from '../util/durable.ts'
import { callerFolder } from './caller-folder.ts'
import { print, printList } from './output.ts'
import { UsageError } from './usage-error.ts'
import type { WithStore } from './with-store.ts'

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
    .action((fullName: string, path: string, options: { private?: boolean }) =>
      withStore(async (store) => {
        const { owner, name } = splitFullName(fullName)
        await checkGit()
        const found = await inspectRepository(resolve(callerFolder(), path))
        // Throws if the configuration is refused.
        await gitDirOf(found)
        await store.repositories.create({
          owner,
          name,
          visibility: visibilityOf(options),
          objectFormat: found.objectFormat,
          path: found.path,
        })
      }, CREATE),
    )

  repo
    .command('list')
    .description('list the repositories')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      withStore(async (store) => {
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
    .argument('<user>')
    .addArgument(new Argument('<permission>').choices(['read', 'write', 'none']))
    .description('give a user access to a repository, or remove it')
    .action((fullName: string, userName: string, permission: Permission | 'none') =>
      withStore(async (store) => {
        const { owner, name } = splitFullName(fullName)
        const user = await store.users.find(userName)
        if (!user) throw new RuleViolation(`there is no user "${userName}"`)
        await store.repositories.setAccess(owner, name, user.id, permission === 'none' ? null : permission)
      }),
    )
}

/** Returns the parts of OWNER/NAME. @throws UsageError */
export function splitFullName(fullName: string): { owner: string; name: string } {
  const [owner, name, ...rest] = fullName.split('/')
  if (!owner || !name || rest.length > 0)
    throw new UsageError(`"${fullName}" is not the name of a repository (expected OWNER/NAME)`)
  return { owner, name }
}

function visibilityOf(options: { private?: boolean }): Visibility {
  return options.private ? 'private' : 'public'
}
