import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { hashPassword, MAX_PASSWORD_BYTES, MIN_PASSWORD_LENGTH } from '../auth/password.ts'
import { RuleViolation } from '../store/rule-violation.ts'
import { formatTime } from '../store/time.ts'
import { printList } from './output.ts'
import type { WithStore } from './with-store.ts'

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
        const passwordHash = options.passwordStdin ? await hashPassword(await readPassword()) : undefined
        const ownExisting = options.ownExisting ?? false
        await store.users.create(name, { ownExisting, ...(passwordHash && { passwordHash }) })
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

/** The first line of standard input, so that `echo` and a file with a final line end both work. */
async function readPassword(): Promise<string> {
  const [password = ''] = (await text(process.stdin)).split(/\r?\n/, 1)
  if ([...password].length < MIN_PASSWORD_LENGTH) {
    throw new RuleViolation(`a password has at least ${MIN_PASSWORD_LENGTH} characters`)
  }
  if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) {
    throw new RuleViolation(`a password has at most ${MAX_PASSWORD_BYTES} bytes`)
  }
  return password
}
