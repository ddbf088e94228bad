import type { Command } from 'commander'
import { Refusal } from '../../domain/refusal.ts'
import { checkGit } from '../../git/git-version.ts'
import { CommitLookup } from '../../git/objects/commit-lookup.ts'
import { findBackupInFolder } from '../../maintenance/backup/restore.ts'
import { type CheckOptions, checkAll } from '../../maintenance/check.ts'
import { pruneStatuses } from '../../maintenance/prune.ts'
import type { Store } from '../../store/store.ts'
import { inMilliseconds, type Milliseconds } from '../../store/time.ts'
import { callerPath, durationOption, UsageError } from '../parts/arguments.ts'
import { count, print, say } from '../parts/output.ts'
import { showCount, showProgress } from '../parts/progress.ts'
import { readingStore, type Settings, withStore } from '../parts/with-store.ts'

/** What an administrator can do about a damaged database. */
const DAMAGED =
  '. The database is damaged: stop the server, move the database away, and restore the newest backup with "restore FILE"'

type CheckFlags = Partial<Omit<CheckOptions, 'copies'>> & { backup?: string }

export function addMaintenanceCommands(program: Command, settings: Settings): void {
  program
    .command('check')
    .description('check the database, and all that the refs of repositories lead to; print each problem')
    .option('--full', 'also read the content of all files in git, and compare refs with events')
    .option('--backup <folder>', 'with --full: compare refs with the newest backup in the folder too')
    .option('--commits', 'also look up every commit with statuses in git')
    .option('--prune', 'with --commits: remove the statuses of commits that are no longer in git')
    .action(async ({ full = false, commits = false, prune = false, backup }: CheckFlags) => {
      if (backup !== undefined && !full) throw new UsageError('--backup needs --full')
      if (prune && !commits) throw new UsageError('--prune needs --commits')
      const copies = backup === undefined ? [] : (await findBackupInFolder(callerPath(backup))).repositories
      return (prune ? withStore : readingStore)(settings, async (store, { tokenMaxLifetime }) => {
        await checkGit()
        const lookup = new CommitLookup()
        const progress = showProgress()
        try {
          const { findings, trusted, pruned, damaged } = await checkAll(
            store,
            lookup,
            { full, copies, commits, prune },
            (done, total) => progress('check repositories', done, total),
          )
          for (const finding of pruned) print(`removed: ${finding}`)
          for (const finding of findings) print(finding)
          for (const repository of trusted) say(repository)
          if (tokenMaxLifetime !== null) await sayWhichOutlive(store, tokenMaxLifetime)
          if (findings.length > 0)
            throw new Refusal(`found ${count(findings.length, 'problem')}${damaged ? DAMAGED : ''}`)
        } finally {
          await lookup.close()
        }
      })
    })

  program
    .command('prune')
    .description('remove the statuses of commits without recent reports')
    .requiredOption('--older-than <duration>', 'time since the latest report on a commit, for example 365d')
    .option('--dry-run', 'only count what would be removed')
    .action(({ olderThan, dryRun = false }: { olderThan: string; dryRun?: boolean }) => {
      const before = Math.floor((Date.now() - durationOption(olderThan, '--older-than')) / 1000)
      const verb = dryRun ? 'to be removed' : 'removed'
      return (dryRun ? readingStore : withStore)(settings, async (store) => {
        const progress = showCount()
        const show = (commits: number, statuses: number, last = false) =>
          progress(
            `Commits checked: ${commits.toLocaleString('en')}. Statuses ${verb}: ${statuses.toLocaleString('en')}.`,
            last,
          )
        const { checked, removed } = await pruneStatuses(store, before, show, dryRun)
        show(checked, removed, true)
      })
    })
}

/** Says which tokens are older than `TOKEN_MAX_LIFETIME`, which bounds new ones. */
async function sayWhichOutlive({ tokens }: Store, maxLifetime: Milliseconds): Promise<void> {
  for (const { id, name, user, createdAt, expiresAt } of await tokens.list())
    if (expiresAt === null || expiresAt > inMilliseconds(createdAt + 1) + maxLifetime)
      say(`note: the token ${id} "${name}" of ${user} lives longer than TOKEN_MAX_LIFETIME allows new ones`)
}
