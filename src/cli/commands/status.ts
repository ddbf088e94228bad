import type { Command } from 'commander'
import { fullCommitId } from '../../domain/commit-id.ts'
import { Refusal } from '../../domain/refusal.ts'
import { fieldsOf } from '../../store/statuses/columns.ts'
import type { CommitKey } from '../../store/statuses/statuses.ts'
import type { Store } from '../../store/store.ts'
import { formatTime } from '../../store/time.ts'
import { findRepository } from '../parts/arguments.ts'
import { printList } from '../parts/output.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'

const SHORT_ID = /^[0-9a-f]{4,39}$/i

export function addStatusCommands(program: Command, settings: Settings): void {
  const status = program.command('status').description('manage the statuses of commits')

  status
    .command('list <owner/name>')
    .argument('<sha>', 'commit id, also a short one of a commit with statuses')
    .description('list the statuses of a commit and who reported them')
    .option('--json', 'print one JSON array')
    .action((fullName: string, sha: string, options: { json?: boolean }) =>
      readingStore(settings, async (store) => {
        const commit = await findCommit(store, fullName, sha)
        const rows = (await store.statuses.listWithReporters(commit)).map((row) => ({
          context: row.context,
          state: row.state,
          ...(options.json && {
            ...fieldsOf(row),
            created_at: formatTime(row.created_at),
          }),
          updated_at: formatTime(row.updated_at),
          user: row.reporter_user,
          token: row.reporter_token,
        }))
        await printList(rows, options.json, 'There are no statuses.')
      }),
    )

  status
    .command('delete <owner/name>')
    .argument('<sha>', 'commit id, also a short one of a commit with statuses')
    .argument('<context>')
    .description('delete one status, for example of a check that was renamed')
    .action((fullName: string, sha: string, context: string) =>
      withStore(settings, async (store) => {
        const commit = await findCommit(store, fullName, sha)
        await asAdministrator(store)((change) => store.statuses.delete(change, commit, context))
      }),
    )
}

/** @throws Refusal if no commit with statuses has a short id, or several have */
async function findCommit(store: Store, fullName: string, given: string): Promise<CommitKey> {
  const { id: repositoryId, objectFormat } = await findRepository(store, fullName)
  if (!SHORT_ID.test(given)) return { repositoryId, sha: fullCommitId(objectFormat, given) }
  const [sha, other] = await store.statuses.commitsBeginning(repositoryId, given.toLowerCase())
  if (sha === undefined) throw new Refusal(`no commit of ${fullName} with statuses begins with ${given}`)
  if (other !== undefined)
    throw new Refusal(`${given} fits several commits: ${sha}, ${other}. Give more of the id`)
  return { repositoryId, sha }
}
