import type { Command } from 'commander'
import { Refused } from '../store/refused.ts'
import { formatTime } from '../store/time.ts'
import { printList } from './output.ts'
import type { WithStore } from './program.ts'

export function addUserCommands(program: Command, withStore: WithStore): void {
  const user = program.command('user').description('people and machines that tokens belong to')

  user
    .command('create')
    .argument('<name>')
    .description('create a user; without a password it can only use tokens')
    .option('--password-stdin', 'read the password from standard input')
    .option('--own-existing', 'let the user write to repositories whose owner already has this name')
    .action((name: string, options: { passwordStdin?: boolean; ownExisting?: boolean }) =>
      withStore(async (store) => {
        if (options.passwordStdin) throw new Refused('passwords come with sign-in')
        await store.users.create(name, { ownExisting: options.ownExisting ?? false })
      }),
    )

  user
    .command('list')
    .description('list the users')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      withStore(async (store) => {
        const users = await store.users.list()
        const rows = users.map(({ name, created_at }) => ({ name, created_at: formatTime(created_at) }))
        printList(rows, options.json, 'There are no users.')
      }),
    )

  user
    .command('delete')
    .argument('<name>')
    .description("delete a user: ends the user's tokens, sessions and access; statuses stay")
    .action((name: string) => withStore((store) => store.users.delete(name)))
}
