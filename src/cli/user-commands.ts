import type { Command } from 'commander'
import { hashPassword } from '../auth/password.ts'
import { formatTime } from '../store/time.ts'
import { printList } from './output.ts'
import { readPassword } from './read-password.ts'
import type { WithStore } from './with-store.ts'

export function addUserCommands(program: Command, withStore: WithStore): void {
  const user = program.command('user').description('manage users: people and machines that own tokens')

  user
    .command('create')
    .argument('<name>')
    .description('create a user; without a password it can use tokens but not sign in')
    .option('--password-stdin', 'read the password from standard input; at a terminal, ask for it')
    .option(
      '--own-existing',
      'allow the name of an existing owner, whose repositories the user can then write to',
    )
    .action((name: string, options: { passwordStdin?: boolean; ownExisting?: boolean }) =>
      withStore(
        async (store) => {
          const passwordHash = options.passwordStdin ? await hashPassword(await readPassword()) : undefined
          const ownExisting = options.ownExisting ?? false
          await store.users.create(name, { ownExisting, ...(passwordHash && { passwordHash }) })
        },
        { create: true },
      ),
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
    .description("delete a user with the user's tokens, sessions and access; statuses stay")
    .action((name: string) => withStore((store) => store.users.delete(name)))
}
