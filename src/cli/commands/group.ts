import { Argument, type Command } from 'commander'
import { nameKey } from '../../domain/names.ts'
import type { Permission } from '../../domain/permissions.ts'
import type { Member } from '../../store/owners/members.ts'
import { formatTime } from '../../store/time.ts'
import { ACCESS, ACCESS_RULE, accessOf, UsageError } from '../parts/arguments.ts'
import { count, printList, say } from '../parts/output.ts'
import { fromOption, readLines } from '../parts/read-objects.ts'
import {
  asAdministrator,
  creatingStore,
  readingStore,
  type Settings,
  withStore,
} from '../parts/with-store.ts'

interface MemberOptions {
  from?: string
  replace?: boolean
  allowEmpty?: boolean
  json?: boolean
}

export function addGroupCommands(program: Command, settings: Settings): void {
  const group = program.command('group').description('manage groups: owners of repositories with members')

  group
    .command('create <name>')
    .description('create a group without members')
    .action((name: string) =>
      creatingStore(settings, (store) =>
        asAdministrator(store)((change) => store.groups.create(change, name)),
      ),
    )

  group
    .command('member <group> [user]')
    .addArgument(new Argument('[permission]').choices(ACCESS))
    .description('list the members of a group; with a user, set what it may do with all its repositories')
    .addOption(fromOption('members, with "user" and "access"').conflicts('json'))
    .option('--replace', 'remove the members that --from does not name')
    .option('--allow-empty', 'let --replace remove all members')
    .option('--json', 'print the list as one JSON array')
    .action(
      (
        name: string,
        userName: string | undefined,
        permission: Permission | 'none' | undefined,
        options: MemberOptions,
      ) => {
        if (options.from !== undefined && userName === undefined)
          return setMembers(settings, name, options.from, options)
        if (options.from !== undefined || options.replace || options.allowEmpty)
          throw new UsageError('--replace and --allow-empty need --from, which takes the place of a user')
        if (userName === undefined)
          return readingStore(settings, async (store) => {
            const rows = (await store.members.list(name)).map(({ user, permission, lockedAt }) => {
              return { user, access: permission, locked_at: lockedAt === null ? null : formatTime(lockedAt) }
            })
            await printList(rows, options.json, 'The group has no members.')
          })
        if (permission === undefined)
          throw new UsageError(`missing access of "${userName}" (expected ${ACCESS_RULE})`)
        return withStore(settings, async (store) => {
          const { id } = await store.users.get(userName)
          const access = permission === 'none' ? null : permission
          await asAdministrator(store)((change) => store.members.set(change, name, id, access))
        })
      },
    )

  group
    .command('list')
    .description('list the groups')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      readingStore(settings, async (store) => {
        const rows = (await store.groups.list()).map(({ name, createdAt, members, repositories }) => ({
          name,
          created_at: formatTime(createdAt),
          members: members ?? 0,
          repositories: repositories ?? 0,
        }))
        await printList(rows, options.json, 'There are no groups.')
      }),
    )

  group
    .command('delete <name>')
    .description('delete a group that owns no repositories')
    .action((name: string) =>
      withStore(settings, async (store) => {
        const members = await asAdministrator(store)((change) => store.groups.delete(change, name))
        for (const { user, permission } of members) say(`${user} was a member with ${permission} access.`)
      }),
    )
}

/** Makes the users of `--from` members. Can be repeated. */
async function setMembers(
  settings: Settings,
  name: string,
  from: string,
  { replace = false, allowEmpty = false }: MemberOptions,
): Promise<void> {
  const lines = await readLines(from, ['user', 'access'], ['locked_at'])
  await withStore(settings, async (store) => {
    const userIds = new Map((await store.users.list()).map(({ id, name }) => [nameKey(name), id]))
    const members = new Map<number, Permission | null>()
    for (const { user, access } of lines) {
      const permission = accessOf(access, user)
      const id = userIds.get(nameKey(user))
      // A directory also lists people who have not signed in yet.
      if (id === undefined) say(`warning: there is no user "${user}"`)
      else if (members.has(id)) throw new UsageError(`--from names ${user} more than once`)
      else members.set(id, permission)
    }
    // What produces the lines may have failed.
    if (replace && !allowEmpty && ![...members.values()].some((permission) => permission !== null))
      throw new UsageError('--from names no user who would be a member; pass --allow-empty to remove all')
    // Last, so that the group has an admin all the time if it has one before and after.
    for (const { user } of replace ? await store.members.list(name) : []) {
      const id = userIds.get(nameKey(user))
      if (id !== undefined && !members.has(id)) members.set(id, null)
    }
    const grants = [...members].map(([userId, permission]) => ({ subject: name, userId, permission }))
    say(`Changed ${count(await store.members.setAll(asAdministrator(store), grants), 'member')}.`)
    const isAdmin = ({ permission, lockedAt }: Member) => permission === 'admin' && lockedAt === null
    if (!(await store.members.list(name)).some(isAdmin)) say(`warning: nobody can administer ${name}`)
  })
}
