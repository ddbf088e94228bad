import type { Command } from 'commander'
import { scopes } from '../../generated/operations.ts'
import { issueToken } from '../auth/issue-token.ts'
import { RuleViolation } from '../store/rule-violation.ts'
import type { Store } from '../store/store.ts'
import { formatTime } from '../store/time.ts'
import type { User } from '../store/users.ts'
import { parseExpiry } from './expiry.ts'
import { print, printList } from './output.ts'
import type { WithStore } from './with-store.ts'

export function addTokenCommands(program: Command, withStore: WithStore): void {
  const token = program.command('token').description('manage personal access tokens')

  token
    .command('create')
    .argument('<user>')
    .description('create a token and print it; it cannot be shown again')
    .option('--name <name>', 'name shown in lists', 'command line')
    .option('--no-scopes', 'omit the scope "repo", which the API requires')
    .option('--expires <when>', 'duration (90d), date, or date-time with Z or an offset')
    .action((userName: string, options: { name: string; scopes: boolean; expires?: string }) => {
      const expiresAt = options.expires === undefined ? null : parseExpiry(options.expires, Date.now())
      return withStore(async (store) => {
        const { secret } = await issueToken(store.tokens, {
          userId: (await findUser(store, userName)).id,
          name: options.name,
          scopes: options.scopes ? [scopes.repo] : [],
          expiresAt,
        })
        print(secret)
      })
    })

  token
    .command('list')
    .argument('<user>')
    .description("list a user's tokens")
    .option('--json', 'print one JSON array')
    .action((userName: string, options: { json?: boolean }) =>
      withStore(async (store) => {
        const tokens = await store.tokens.list((await findUser(store, userName)).id)
        const rows = tokens.map((row) => ({
          id: row.id,
          name: row.name,
          prefix: row.prefix,
          scopes: row.scopes.split(' ').filter(Boolean),
          created_at: formatTime(row.created_at),
          expires_at: row.expires_at === null ? null : new Date(row.expires_at).toISOString(),
          last_used_at: row.last_used_at === null ? null : formatTime(row.last_used_at),
        }))
        printList(rows, options.json, 'There are no tokens.')
      }),
    )

  token
    .command('revoke')
    .argument('<id>')
    .description('revoke a token; it is refused from the next request on')
    .action((id: string) => withStore((store) => store.tokens.revoke(id)))
}

async function findUser(store: Store, name: string): Promise<User> {
  const user = await store.users.find(name)
  if (!user) throw new RuleViolation(`there is no user "${name}"`)
  return user
}
