import type { Command } from 'commander'
import { listRuledCommits } from '../../branches/ruled-commits.ts'
import { Refusal } from '../../domain/refusal.ts'
import { deletingCommand, noteOnResults, noteOnUnable } from '../../domain/reported-results.ts'
import { createGitQueue } from '../../git/history/cached-reads.ts'
import { CommitLog } from '../../git/history/log.ts'
import { RefLists } from '../../git/history/ref-lists.ts'
import { findRemaining } from '../../repositories/remaining.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { replaceHidden } from '../../util/replace-characters.ts'
import { findRepository, splitFullName, UsageError } from '../parts/arguments.ts'
import { printList, say } from '../parts/output.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'

/** Commands that are shown at once. */
const SHOWN = 30

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
        names: string[],
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
            await printList(rows, json, 'Everybody who may write reports any context.')
          })
        }
        if (json) throw new UsageError('--json prints the list; it takes no pattern')
        if (anyone ? names.length > 0 : names.length === 0)
          throw new UsageError('pass either users or --anyone')
        return withStore(settings, async (store) => {
          const users = anyone ? null : await Promise.all(names.map((name) => userOf(store, name)))
          await asAdministrator(store)((change) =>
            store.reservations.set(change, splitFullName(fullName), pattern, users),
          )
          if (users) await sayWhatRemains(store, await findRepository(store, fullName), pattern)
        })
      },
    )
}

async function userOf(store: Store, name: string) {
  const user = await store.users.find(name)
  if (!user) throw new Refusal(`there is no user "${name}". A group cannot be named`)
  return user
}

/** Says who of the users of a pattern cannot report, and which results of others stay. */
async function sayWhatRemains(store: Store, repository: Repository, pattern: string): Promise<void> {
  const fullName = `${repository.owner}/${repository.name}`
  const queue = createGitQueue()
  const git = { refs: new RefLists(queue), commitLog: new CommitLog(queue) }
  const rules = await store.rules.load(repository.id)
  const commits = await listRuledCommits(git, repository, rules, { address: 'local' })
  const { unable, results } = await findRemaining(store, repository.id, pattern, commits ?? [])
  for (const name of unable) say(`warning: ${noteOnUnable(name)}`)
  if (commits === null) return say(`warning: git cannot read ${fullName}, so earlier results are not known`)
  const note = noteOnResults(results, commits.length)
  if (note === null) return
  say(`${pattern}: ${note}:`)
  for (const result of results.slice(0, SHOWN)) say(`  ${replaceHidden(deletingCommand(fullName, result))}`)
  if (results.length > SHOWN)
    say(`  and ${results.length - SHOWN} more, which are shown when the command is run again`)
}
