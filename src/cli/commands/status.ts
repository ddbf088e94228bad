import type { Command } from 'commander'
import { fullCommitId } from '../../domain/commit-id.ts'
import { fieldsOf } from '../../store/statuses/columns.ts'
import type { CommitKey } from '../../store/statuses/statuses.ts'
import type { Store } from '../../store/store.ts'
import { formatTime } from '../../store/time.ts'
import { findRepository } from '../parts/arguments.ts'
import { printList } from '../parts/output.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'

export function addStatusCommands(program: Command, settings: Settings): void {
  const status = program.command('status').description('manage the statuses of commits')

  status
    .command('list <owner/name>')
    .argument('<sha>', 'full commit id')
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
    .argument('<sha>', 'full commit id')
    .argument('<context>')
    .description('delete one status, for example of a check that was renamed')
    .action((fullName: string, sha: string, context: string) =>
      withStore(settings, async (store) => {
        const commit = await findCommit(store, fullName, sha)
        await asAdministrator(store)((change) => store.statuses.delete(change, commit, context))
      }),
    )
}

async function findCommit(store: Store, fullName: string, sha: string): Promise<CommitKey> {
  const { id, objectFormat } = await findRepository(store, fullName)
  return { repositoryId: id, sha: fullCommitId(objectFormat, sha) }
}
