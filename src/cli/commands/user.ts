import type { Command } from 'commander'
import { hashPassword } from '../../auth/password.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { NewUser } from '../../store/accounts/users.ts'
import { formatTime } from '../../store/time.ts'
import { UsageError } from '../parts/arguments.ts'
import { count, printList, say } from '../parts/output.ts'
import { fromOption, readObjects } from '../parts/read-objects.ts'
import { readNewPassword } from '../parts/read-password.ts'
import {
  asAdministrator,
  creatingStore,
  readingStore,
  type Settings,
  withStore,
} from '../parts/with-store.ts'

/** Maximum number of sessions to list. */
const MAX_SESSIONS = 1_000

const FROM_STDIN = 'read the password from standard input; at a terminal, ask for it'

interface CreateOptions {
  from?: string
  passwordStdin?: boolean
  ownExisting?: boolean
}

export function addUserCommands(program: Command, settings: Settings): void {
  const user = program.command('user').description('manage users: people and machines that own tokens')

  user
    .command('create [name]')
    .description('create a user; without a password it can use tokens but not sign in')
    .option('--password-stdin', FROM_STDIN)
    .option(
      '--own-existing',
      'allow the name of a group without members, whose repositories the user then owns',
    )
    .addOption(fromOption("all users or none, with the fields of 'user list'").conflicts('passwordStdin'))
    .action(async (name: string | undefined, { from, passwordStdin, ownExisting = false }: CreateOptions) => {
      // Read before a database is created.
      if (name === undefined || from !== undefined) {
        const users = await readUsers(name, from)
        const wanted = users.map((user) => ({ ...user, ownExisting }))
        await creatingStore(settings, (store) =>
          asAdministrator(store)((change) => store.users.createAll(change, wanted)),
        )
        say(`Created ${count(users.length, 'user')}.`)
        return
      }
      const passwordHash = passwordStdin ? await hashPassword(await readNewPassword(name)) : undefined
      await creatingStore(settings, (store) =>
        asAdministrator(store)((change) => store.users.create(change, name, { ownExisting, passwordHash })),
      )
    })

  user
    .command('list')
    .description('list the users')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      readingStore(settings, async (store, { oidc }) => {
        const users = await store.users.list()
        const areLinked = options.json || oidc !== null || users.some(({ subject }) => subject !== null)
        const rows = users.map(({ name, createdAt, lockedAt, issuer, subject }) => ({
          name,
          created_at: formatTime(createdAt),
          locked_at: lockedAt === null ? null : formatTime(lockedAt),
          ...(areLinked && { issuer, subject }),
        }))
        await printList(rows, options.json, 'There are no users.')
      }),
    )

  user
    .command('password <name>')
    .description("set a user's password, and end the user's sessions; tokens keep working")
    .option('--password-stdin', FROM_STDIN)
    .action((name: string, options: { passwordStdin?: boolean }) => {
      if (!options.passwordStdin && !process.stdin.isTTY)
        throw new UsageError('standard input is not a terminal; pass the password with --password-stdin')
      return withStore(settings, async (store) => {
        const account = await store.users.get(name)
        const passwordHash = await hashPassword(await readNewPassword(account.name))
        const ended = await asAdministrator(store)((change) =>
          store.users.setPassword(change, account, passwordHash),
        )
        if (!ended)
          throw new Refusal(`the password of "${name}" was changed meanwhile; run the command again`)
        const { sessions, tokens } = ended
        const work = tokens === 1 ? 'works' : 'work'
        const when = account.lockedAt === null ? `still ${work}` : `${work} again after "user unlock"`
        say(`Ended ${count(sessions, 'session')}. ${count(tokens, 'token')} of ${account.name} ${when}.`)
      })
    })

  user
    .command('lock <name>')
    .description("refuse a user's password and tokens from the next request on, and end the user's sessions")
    .action((name: string) =>
      withStore(settings, async (store) => {
        const locked = await asAdministrator(store)((change) => store.users.setLocked(change, name, true))
        if (locked === null) say('The user is locked already.')
        else
          say(
            `Ended ${count(locked.sessions, 'session')}. Tokens and password are refused until "user unlock".`,
          )
      }),
    )

  user
    .command('unlock <name>')
    .description("accept a user's password and tokens again")
    .action((name: string) =>
      withStore(settings, async (store) => {
        const unlocked = await asAdministrator(store)((change) => store.users.setLocked(change, name, false))
        if (unlocked === null) say('The user is not locked.')
        else say(`${count(unlocked.tokens, 'token')} can be used again.`)
      }),
    )

  user
    .command('link <name>')
    .description('let a user sign in with an account of OIDC_ISSUER, no longer with a password')
    .requiredOption('--subject <subject>', 'the id that the provider gives the account, the claim "sub"')
    .action((name: string, { subject }: { subject: string }) =>
      withStore(settings, async (store, { oidc }) => {
        if (!oidc) throw new Refusal('OIDC_ISSUER is not set, so there is no account to link')
        const identity = { issuer: oidc.issuer, subject }
        const sessions = await asAdministrator(store)((change) => store.users.link(change, name, identity))
        say(`Ended ${count(sessions, 'session')}.`)
      }),
    )

  user
    .command('unlink <name>')
    .description("remove a user's link; tokens then work without sign-ins, so lock a user who has left")
    .action((name: string) =>
      withStore(settings, async (store) => {
        const sessions = await asAdministrator(store)((change) => store.users.link(change, name, null))
        say(`Ended ${count(sessions, 'session')}.`)
      }),
    )

  user
    .command('sessions <name>')
    .description("list a user's sessions: the browsers that are signed in")
    .option('--end', 'end all of them instead')
    .option('--json', 'print one JSON array')
    .action((name: string, options: { end?: boolean; json?: boolean }) =>
      (options.end ? withStore : readingStore)(settings, async (store) => {
        const account = await store.users.get(name)
        if (options.end) {
          const end = asAdministrator(store)((change) => store.sessions.endAll(change, account))
          say(`Ended ${count(await end, 'session')}.`)
          return
        }
        const rows = (await store.sessions.list(account.id, MAX_SESSIONS)).map((session) => ({
          id: session.id,
          created_at: formatTime(session.createdAt),
          last_seen_at: formatTime(session.seenAt),
          address: session.address,
          user_agent: session.userAgent,
        }))
        await printList(rows, options.json, 'There are no sessions.')
      }),
    )

  user
    .command('delete <name>')
    .description(
      "delete a user with the user's tokens, sessions and access, and list who gains and loses access",
    )
    .option('--transfer-to <other>', "give the user's repositories to another user or group first")
    .action((name: string, options: { transferTo?: string }) =>
      withStore(settings, async (store) => {
        const { moved, changes } = await store.users.delete(asAdministrator(store), name, options.transferTo)
        if (moved > 0)
          say(`${options.transferTo} now owns ${count(moved, 'more repository', 'more repositories')}.`)
        for (const { user, repository, from, to } of changes)
          say(`${user} has ${to ?? 'no'} access to ${repository} (before: ${from ?? 'none'}).`)
      }),
    )
}

/** Returns the users of `--from`. @throws UsageError */
async function readUsers(
  name: string | undefined,
  from: string | undefined,
): Promise<(NewUser & { name: string })[]> {
  const fields = ['created_at', 'locked_at', 'issuer', 'subject'] as const
  return (await readObjects(name, from, fields)).map(({ name, locked_at, issuer, subject }) => {
    if ((issuer === undefined) !== (subject === undefined))
      throw new UsageError(`${name}: "issuer" and "subject" belong together`)
    const identity = issuer && subject ? { issuer, subject } : null
    return { name, isLocked: locked_at !== undefined, identity }
  })
}
