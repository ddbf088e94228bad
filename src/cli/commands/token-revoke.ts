import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { hashToken, isToken, PREFIX, tokenPrefix } from '../../auth/token.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { ListedToken } from '../../store/accounts/shown-tokens.ts'
import type { Store } from '../../store/store.ts'
import { formatMilliseconds, formatTime } from '../../store/time.ts'
import { isExpired } from '../../store/token-validity.ts'
import { UsageError } from '../parts/arguments.ts'
import { count, printList, say } from '../parts/output.ts'
import { asAdministrator, type Settings, withStore } from '../parts/with-store.ts'

/** What may be a token in a text, such as a line of a log. */
const IN_TEXT = /cst_[0-9A-Za-z]+/g

/** Adds `token revoke`. */
export function addRevoking(token: Command, settings: Settings): void {
  token
    .command('revoke [token]')
    .description('revoke a token; it is refused from the next request on')
    .addHelpText(
      'after',
      '\nA token is named by its id or its first characters, as "token list" shows them, with --user also by its name.\n' +
        'For one that has leaked, pass - and write it, or the text that has it, to standard input.',
    )
    .option('--user <name>', 'whose token it is; without a token: revoke all tokens of the user')
    .action((named: string | undefined, { user }: { user?: string }) => {
      if (named === undefined && user === undefined)
        throw new UsageError('pass a token, or --user to revoke all tokens of a user')
      if (named === '-' && user !== undefined)
        throw new UsageError('- finds the token by its text, whose ever it is: leave --user out')
      if (named !== undefined && isSecret(named, user))
        throw new UsageError(
          'a token as an argument is seen by everybody who lists processes: pass - and write it to standard input',
        )
      return withStore(settings, async (store) => {
        if (named !== undefined) return revokeOne(store, named, user)
        const { id } = await store.users.get(user ?? '')
        const revoked = await store.tokens.revokeAll(asAdministrator(store), id)
        say(`Revoked ${count(revoked, 'token')}.`)
      })
    })
}

/**
 * Returns whether a text has a token, or seems to have more of one than what lists show, perhaps with a
 * typo. With a user it may be a name.
 */
function isSecret(text: string, user: string | undefined): boolean {
  const isLong = text.startsWith(PREFIX) && text.length > tokenPrefix(text).length
  return text.match(IN_TEXT)?.some(isToken) === true || (isLong && user === undefined)
}

async function revokeOne(store: Store, named: string, user: string | undefined): Promise<void> {
  const userId = user === undefined ? undefined : (await store.users.get(user)).id
  const tokens = await store.tokens.list(userId)
  const found = named === '-' ? await leaked(store, tokens) : matching(tokens, named, user)
  const [token] = found
  if (!token || found.length > 1) {
    const rows = found.map(({ id, user, name, prefix, createdAt }) => ({
      ...{ user, id, name, prefix },
      created_at: formatTime(createdAt),
    }))
    await printList(rows, false, '')
    throw new Refusal(`${found.length} tokens match, and none was revoked; pass the id of one`)
  }
  await asAdministrator(store)((change) => store.tokens.revoke(change, token.id))
  say(`Revoked the token ${token.id} "${token.name}" of ${token.user}.`)
  // Read again, since it may have been rotated meanwhile.
  for (const { id, name, isReplaced, reporterId, expiresAt } of await store.tokens.list(userId))
    if (isReplaced && reporterId === token.reporterId && !isExpired(expiresAt, Date.now()))
      say(
        `warning: the old secret ${id} "${name}" still works until ${formatMilliseconds(expiresAt)}, unless you revoke it too`,
      )
}

/** Returns the tokens that a text names. @throws Refusal if there is none */
function matching(tokens: readonly ListedToken[], named: string, user: string | undefined): ListedToken[] {
  const byId = tokens.filter(({ id }) => id === named)
  if (byId.length > 0) return byId
  const isNamed = ({ prefix, name }: ListedToken) =>
    (named.startsWith(PREFIX) && prefix.startsWith(named)) || (user !== undefined && name === named)
  const found = tokens.filter(isNamed)
  if (found.length > 0) return found
  const whose = user === undefined ? '' : ` of ${user}`
  const hint = user === undefined ? '; to name one by its name, pass --user too' : ''
  throw new Refusal(`there is no token ${named}${whose}${hint}`)
}

/** Returns the token whose text is on standard input. @throws Refusal */
async function leaked(store: Store, tokens: readonly ListedToken[]): Promise<ListedToken[]> {
  if (process.stdin.isTTY) say('Paste the token, and then press Enter and Ctrl-D.')
  const candidates = new Set((await text(process.stdin)).match(IN_TEXT))
  const secrets = [...candidates].filter(isToken)
  if (secrets.length === 0)
    throw new Refusal(
      `standard input has no whole token (expected ${PREFIX} and 38 letters and digits${candidates.size > 0 ? ', unchanged' : ''})`,
    )
  const ids = await Promise.all(secrets.map((secret) => store.tokens.idOf(hashToken(secret))))
  const found = tokens.filter(({ id }) => ids.includes(id))
  if (found.length === 0)
    throw new Refusal('no token has this text: it was revoked or rotated, or is of another server')
  return found
}
