import { Argument, type Command } from 'commander'
import type { Permission } from '../../domain/permissions.ts'
import type { AccessEntry } from '../../store/access/access-list.ts'
import type { Store } from '../../store/store.ts'
import { formatTime } from '../../store/time.ts'
import { ACCESS, ACCESS_RULE, accessOf, splitFullName, UsageError } from '../parts/arguments.ts'
import { count, printList, say } from '../parts/output.ts'
import { fromOption, readLines } from '../parts/read-objects.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'

/** @param repo the command to whose commands `access` is added */
export function addAccessCommand(repo: Command, settings: Settings): void {
  repo
    .command('access [owner/name] [user]')
    .addArgument(new Argument('[permission]').choices(ACCESS))
    .description(
      'list who has access to a repository, or to all, and why; with a user, give or remove access',
    )
    .option('--user <name>', 'list the repositories to which a user has access instead, and why')
    .addOption(
      fromOption('give or remove access, with "repository", "user" and "access"').conflicts(['user', 'json']),
    )
    .option('--json', 'print the list as one JSON array')
    .action(
      (
        fullName: string | undefined,
        userName: string | undefined,
        permission: Permission | 'none' | undefined,
        { user, from, json }: { user?: string; from?: string; json?: boolean },
      ) => {
        if (fullName === undefined && from !== undefined) return grantAll(settings, from)
        if (fullName === undefined && user !== undefined)
          return readingStore(settings, (store) => listAccessOf(store, user, json))
        if (fullName === undefined)
          return readingStore(settings, async (store) => {
            const rows = (await store.collaborators.listAll()).map((entry) => {
              return { repository: entry.repository, ...accessRow(entry) }
            })
            await printList(rows, json, 'Nobody has access.')
          })
        if (user !== undefined || from !== undefined)
          throw new UsageError('pass either a repository or an option')
        const repository = splitFullName(fullName)
        if (userName === undefined)
          return readingStore(settings, async (store) => {
            await printList(
              (await store.collaborators.list(repository)).map(accessRow),
              json,
              'Nobody has access.',
            )
          })
        if (permission === undefined)
          throw new UsageError(`missing access of "${userName}" (expected ${ACCESS_RULE})`)
        return withStore(settings, async (store) => {
          const { id } = await store.users.get(userName)
          const access = permission === 'none' ? null : permission
          await asAdministrator(store)((change) => store.collaborators.set(change, repository, id, access))
        })
      },
    )
}

/** Stores the grants of `--from`. */
async function grantAll(settings: Settings, from: string): Promise<void> {
  // As `repo access --json` prints it: what follows from something else than a grant is skipped.
  const lines = await readLines(from, ['repository', 'user', 'access'], ['reason', 'locked_at'])
  const granted = lines.filter(({ reason }) => reason === undefined || reason === 'granted')
  await withStore(settings, async (store) => {
    const users = new Map<string, number>()
    for (const name of new Set(granted.map(({ user }) => user)))
      users.set(name, (await store.users.get(name)).id)
    const grants = granted.map(({ repository, user, access }) => ({
      subject: splitFullName(repository),
      userId: users.get(user) ?? 0,
      permission: accessOf(access, `${repository}: ${user}`),
    }))
    say(`Changed ${count(await store.collaborators.setAll(asAdministrator(store), grants), 'grant')}.`)
  })
}

async function listAccessOf(store: Store, userName: string, json?: boolean): Promise<void> {
  const user = await store.users.get(userName)
  const rows = (await store.collaborators.ofUser(user)).map(({ repository, permission, reason }) => {
    return { repository, access: permission, reason }
  })
  if (user.lockedAt !== null) say(`warning: ${user.name} is locked, and has no access until "user unlock"`)
  await printList(rows, json, `${user.name} has access to no repository.`)
}

function accessRow({ user, permission, reason, lockedAt }: AccessEntry) {
  return {
    user: user ?? 'everyone',
    access: permission,
    reason,
    locked_at: lockedAt === null ? null : formatTime(lockedAt),
  }
}
