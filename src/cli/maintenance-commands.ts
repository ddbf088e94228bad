import { resolve } from 'node:path'
import type { Command } from 'commander'
import { checkAll } from '../domain/check.ts'
import { openCommitLookup } from '../git/commit-lookup.ts'
import { checkGit } from '../git/usable.ts'
import { Refused } from '../store/refused.ts'
import { callerFolder } from './caller-folder.ts'
import { parseDuration } from './expiry.ts'
import { print } from './output.ts'
import { showCount, showProgress } from './progress.ts'
import type { WithStore } from './with-store.ts'

function summaryOf(faults: string[], damaged: boolean): string {
  const found = `${faults.length.toLocaleString('en')} faults were found`
  if (!damaged) return found
  return `${found}. The database is damaged: stop the server, move the database away, and restore the newest backup with "restore FILE"`
}

export function addMaintenanceCommands(program: Command, withStore: WithStore): void {
  program
    .command('backup')
    .argument('<file>')
    .description('write the database to a file, also while the server runs')
    .addHelpText(
      'after',
      `
The file holds users, repositories, access, tokens (as hashes) and statuses as they are at one moment; it can be
restored into SQLite and PostgreSQL alike. Repositories are folders: copy those below DATA_DIR after this command.`,
    )
    .action((file: string) =>
      withStore(async (store) => {
        const progress = showProgress()
        await store.backup(resolve(callerFolder(), file), (table, done, total) =>
          progress(`backup ${table}`, done, total ?? done),
        )
      }),
    )

  program
    .command('restore')
    .argument('<file>')
    .description('fill an empty database from a backup: all of it or nothing')
    .action((file: string) =>
      withStore(async (store) => {
        const progress = showCount()
        await store.restore(resolve(callerFolder(), file), (table, done) =>
          progress(`restore ${table}: ${done.toLocaleString('en')}`),
        )
        progress('The backup is restored.', true)
      }),
    )

  program
    .command('check')
    .description('check what is stored and whether its repositories are there; print what is wrong')
    .option('--commits', 'also ask git for every commit that something was reported on')
    .option('--prune', 'remove what refers to a repository, a user or (with --commits) a commit that is gone')
    .action(({ commits = false, prune = false }: { commits?: boolean; prune?: boolean }) =>
      withStore(async (store) => {
        await checkGit()
        const lookup = openCommitLookup()
        const progress = showProgress()
        try {
          const { faults, pruned, damaged } = await checkAll(
            store,
            lookup,
            { commits, prune },
            (what, done, total) => progress(`check ${what}`, done, total),
          )
          for (const fault of pruned) print(`removed: ${fault}`)
          for (const fault of faults) print(fault)
          if (faults.length > 0) throw new Refused(summaryOf(faults, damaged))
        } finally {
          await lookup.close()
        }
      }),
    )

  program
    .command('prune')
    .description('remove the statuses of commits on which nothing was reported lately')
    .requiredOption('--older-than <duration>', 'how long nothing was reported on them: 365d')
    .action(({ olderThan }: { olderThan: string }) => {
      const before = Math.floor((Date.now() - parseDuration(olderThan)) / 1000)
      return withStore(async (store) => {
        const progress = showCount()
        let summary = '0 statuses of 0 commits'
        await store.prune(before, (commits, removed) => {
          summary = `${removed.toLocaleString('en')} statuses of ${commits.toLocaleString('en')} commits`
          progress(`removed ${summary}`)
        })
        progress(`Removed ${summary}.`, true)
      })
    })
}
