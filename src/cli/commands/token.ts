import type { Command } from 'commander'
import { scopes } from '../../../generated/operations.ts'
import { issueToken } from '../../auth/issue-token.ts'
import { ADMINISTRATOR } from '../../store/audit/audit.ts'
import type { Store } from '../../store/store.ts'
import { formatTime } from '../../store/time.ts'
import { findRepository, parseExpiry } from '../parts/arguments.ts'
import { print, printList } from '../parts/output.ts'
import type { WithStore } from '../parts/with-store.ts'

export function addTokenCommands(program: Command, withStore: WithStore): void {
  const token = program.command('token').description('manage personal access tokens')

  token
    .command('create')
    .argument('<user>')
    .description('create a token and print it; it cannot be shown again')
    .option('--name <name>', 'name shown in lists', 'command line')
    .option('--no-scopes', 'omit the scope "repo", which the API requires')
    .option('--expires <when>', 'duration (90d), date, or date-time with Z or an offset')
    .option(
      '--repo <owner/name...>',
      'limit the token to repositories; it gives no more access than its user has',
    )
    .option(
      '--context <pattern...>',
      'limit it to reports of contexts that match; * matches any characters, / included',
    )
    .option('--no-push', 'allow git fetch but not git push')
    .action((userName: string, options: CreateOptions) => {
      const expiresAt = options.expires === undefined ? null : parseExpiry(options.expires, Date.now())
      const contexts = options.context ?? null
      return withStore(async (store) => {
        const request = {
          userId: (await store.users.get(userName)).id,
          name: options.name,
          scopes: options.scopes ? [scopes.repo] : [],
          expiresAt,
          limits: {
            repositories: options.repo ? await repositoryIds(store, options.repo) : null,
            contexts,
            push: options.push,
          },
        }
        const { secret } = await issueToken(store.tokens, request, ADMINISTRATOR)
        print(secret)
      })
    })

  token
    .command('list')
    .argument('<user>')
    .description("list a user's tokens")
    .option('--json', 'print one JSON array')
    .action((userName: string, options: { json?: boolean }) =>
      withStore.reading(async (store) => {
        const tokens = await store.tokens.list((await store.users.get(userName)).id)
        const rows = tokens.map((row) => ({
          id: row.id,
          name: row.name,
          prefix: row.prefix,
          scopes: row.scopes.split(' ').filter(Boolean),
          created_at: formatTime(row.created_at),
          expires_at: row.expires_at === null ? null : new Date(row.expires_at).toISOString(),
          last_used_at: row.last_used_at === null ? null : formatTime(row.last_used_at),
          // In the table an empty list would look like no limit.
          repositories: row.repositories?.length === 0 && !options.json ? 'none' : row.repositories,
          contexts: row.contexts,
          push: row.push,
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

interface CreateOptions {
  name: string
  scopes: boolean
  expires?: string
  repo?: string[]
  context?: string[]
  push: boolean
}

async function repositoryIds(store: Store, fullNames: readonly string[]): Promise<number[]> {
  const ids = new Set<number>()
  for (const fullName of fullNames) ids.add((await findRepository(store, fullName)).id)
  return [...ids]
}
