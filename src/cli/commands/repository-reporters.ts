import type { Command } from 'commander'
import type { Store } from '../../store/store.ts'
import { findRepository, splitFullName, UsageError } from '../parts/arguments.ts'
import { printList, say } from '../parts/output.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'

/** @param repo the command to whose commands `reporters` is added */
export function addReportersCommand(repo: Command, settings: Settings): void {
  repo
    .command('reporters <owner/name> [pattern] [user...]')
    .description('list the contexts that only some users may report; with a pattern, reserve them for users')
    .option('--anyone', 'let everybody who may write report them again')
    .option('--json', 'print the list as one JSON array')
    .action(
      (
        fullName: string,
        pattern: string | undefined,
        users: string[],
        { anyone, json }: { anyone?: true; json?: boolean },
      ) => {
        if (pattern === undefined) {
          if (anyone) throw new UsageError('missing pattern')
          return readingStore(settings, async (store) => {
            const { id } = await findRepository(store, fullName)
            const rows = (await store.reservations.list(id)).map(({ pattern, users }) => {
              const names = users.map(({ name }) => name)
              return { pattern, users: json ? names : names.join(' ') || 'nobody' }
            })
            printList(rows, json, 'Everybody who may write reports any context.')
          })
        }
        if (anyone ? users.length > 0 : users.length === 0)
          throw new UsageError('pass either users or --anyone')
        return withStore(settings, async (store) => {
          const repository = splitFullName(fullName)
          await asAdministrator(store)((change) =>
            store.reservations.set(change, repository, pattern, anyone ? null : users),
          )
          if (!anyone) await warn(store, fullName, pattern)
        })
      },
    )
}

/** Says who of the users of a pattern cannot report, as they may not write. */
async function warn(store: Store, fullName: string, pattern: string): Promise<void> {
  const { id } = await findRepository(store, fullName)
  const access = await store.collaborators.list(splitFullName(fullName))
  const writers = new Set(
    access.filter(({ permission }) => permission !== 'read').map(({ user }) => user?.toLowerCase()),
  )
  const reservation = (await store.reservations.list(id)).find((each) => each.pattern === pattern)
  for (const { name } of reservation?.users ?? [])
    if (!writers.has(name.toLowerCase()))
      say(`warning: ${name} has no write access to ${fullName}, so cannot report`)
}
