import type { Command } from 'commander'
import { scopes } from '../../../generated/operations.ts'
import { boundExpiry, EXPIRES_SOON, issueToken, rotateToken } from '../../auth/issue-token.ts'
import type { Store } from '../../store/store.ts'
import { formatMilliseconds, formatTime } from '../../store/time.ts'
import { durationOption, findRepository, parseExpiry, UsageError } from '../parts/arguments.ts'
import { print, printList, say } from '../parts/output.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'
import { addRevoking } from './token-revoke.ts'

interface ListOptions {
  user?: string
  unused?: string
  json?: boolean
}

export function addTokenCommands(program: Command, settings: Settings): void {
  const token = program.command('token').description('manage personal access tokens')

  token
    .command('create <user>')
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
      return withStore(settings, async (store, { tokenMaxLifetime }) => {
        const { id: userId } = await store.users.get(userName)
        const request = {
          name: options.name,
          scopes: options.scopes ? [scopes.repo] : [],
          expiresAt: boundExpiry(expiresAt, tokenMaxLifetime),
          limits: {
            repositories: options.repo ? await repositoryIds(store, options.repo) : null,
            contexts,
            push: options.push,
          },
        }
        const { secret, token } = await issueToken(request, (token) =>
          asAdministrator(store)((change) => store.tokens.create(change, { ...token, userId })),
        )
        if (token.expiresAt !== expiresAt)
          say(`The token expires at ${formatMilliseconds(token.expiresAt)}, the latest that is allowed.`)
        print(secret)
      })
    })

  token
    .command('list [user]')
    .description("list a user's tokens, or those of all users")
    .option('--user <name>', 'the same as the argument')
    .option('--unused <duration>', 'only those that were not used for so long, for example 90d')
    .option('--json', 'print one JSON array')
    .action((argument: string | undefined, options: ListOptions) => {
      const { user, unused, json } = options
      if (argument !== undefined && user !== undefined)
        throw new UsageError('give the user as an argument or with --user, not both')
      const userName = argument ?? user
      const before =
        unused === undefined
          ? Number.POSITIVE_INFINITY
          : (Date.now() - durationOption(unused, '--unused')) / 1000
      return readingStore(settings, async (store) => {
        const tokens = await store.tokens.list(
          userName === undefined ? undefined : (await store.users.get(userName)).id,
        )

        const areDue = tokens.some(({ signInDue }) => signInDue !== null)
        const rows = tokens
          .filter((row) => (row.lastUsedAt ?? row.createdAt) < before)
          .map((row) => ({
            user: row.user,
            id: row.id,
            name: row.name,
            prefix: row.prefix,
            scopes: row.scopes.split(' ').filter(Boolean),
            created_at: formatTime(row.createdAt),
            expires_at: formatMilliseconds(row.expiresAt),
            last_used_at: row.lastUsedAt === null ? null : formatTime(row.lastUsedAt),
            // In the table an empty list would look like no limit.
            repositories: row.repositories?.length === 0 && !json ? 'none' : row.repositories,
            contexts: row.contexts,
            push: row.push,
            ...(areDue && { works_until: formatMilliseconds(row.signInDue) }),
          }))
        await printList(
          rows,
          json,
          tokens.length > 0 ? 'No token is unused for so long.' : 'There are no tokens.',
        )

        const soon = Date.now() + EXPIRES_SOON
        for (const name of new Set(tokens.flatMap((row) => ((row.signInDue ?? soon) < soon ? row.user : []))))
          say(`warning: the tokens of ${name} stop working soon, or have stopped, unless ${name} signs in.`)
      })
    })

  token
    .command('rotate <id>')
    .description('give a token another secret, for as long as before, and print it')
    .option('--overlap <duration>', 'how long the old secret still works, unless it expires before', '1d')
    .action((id: string, options: { overlap: string }) => {
      const overlap = durationOption(options.overlap, '--overlap')
      return withStore(settings, async (store, { tokenMaxLifetime }) => {
        const rotate = asAdministrator(store)((change) =>
          rotateToken(change, store.tokens, id, overlap, tokenMaxLifetime),
        )
        const { secret, expiresAt, oldExpiresAt } = await rotate
        const expiry = expiresAt === null ? 'never expires' : `expires at ${formatMilliseconds(expiresAt)}`
        say(`The new secret ${expiry}. The old one works until ${formatMilliseconds(oldExpiresAt)}.`)
        print(secret)
      })
    })

  addRevoking(token, settings)
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
