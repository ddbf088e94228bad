import { statSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { Refusal } from '../../domain/refusal.ts'
import { checkGit } from '../../git/git-version.ts'
import { backUp } from '../../maintenance/backup/back-up.ts'
import { findBackup, restoreAll } from '../../maintenance/backup/restore.ts'
import { callerPath, UsageError } from '../parts/arguments.ts'
import { count, print, say } from '../parts/output.ts'
import { showProgress } from '../parts/progress.ts'
import { readingStore, type Settings } from '../parts/with-store.ts'

interface BackupFlags {
  keep: string
  imported?: boolean
  verify?: 'all'
}

export function addBackupCommands(program: Command, settings: Settings): void {
  program
    .command('backup <folder>')
    .description('back up the database and the repositories to a folder; the server may be running')
    .option('--keep <number>', 'how many backups to keep in the folder', '7')
    .option('--imported', 'also back up imported repositories')
    .addOption(new Option('--verify <what>', 'also read the other backups in the folder').choices(['all']))
    .addHelpText(
      'after',
      `
Each backup contains users, repositories, access, tokens (as hashes), the audit log, statuses, and the refs and objects of repositories.
Backups in one folder share objects. A backup that does not end leaves those before it complete.`,
    )
    .action((path: string, { keep, imported = false, verify }: BackupFlags) =>
      readingStore(settings, async (store) => {
        if (!/^[1-9]\d{0,3}$/.test(keep))
          throw new UsageError(`--keep: "${keep}" is not a number of at least 1`)
        await checkGit()
        const options = { keep: Number(keep), imported, verifyAll: verify === 'all' }
        const folder = callerPath(path)
        const report = await backUp(store, folder, options, showProgress())
        const { name, left, problems, notes, verified } = report
        print(`backed up to ${folder} as ${name}`)
        print(`verified ${count(verified.bytes, 'byte')} of the folder in ${verified.seconds.toFixed(1)} s`)
        for (const note of notes) say(note)
        for (const name of left) say(`not included: ${name} is imported (--imported includes it)`)
        for (const problem of problems) say(problem)
        if (problems.length > 0)
          throw new Refusal(
            `${count(problems.length, 'repository', 'repositories')} could not be read; the new backup has the state of the backup before, if that had it`,
          )
      }),
    )

  program
    .command('restore <path>')
    .description('restore a folder of backups, or a single file, into an empty place')
    .option(
      '--time <time>',
      'restore the newest backup of this time (UTC), such as 2026-11-22 or 2026-11-22T03',
    )
    .option('--lock-users', 'lock all users, to be unlocked one by one')
    .action(async (path: string, { time, lockUsers }: { time?: string; lockUsers?: true }) => {
      const options = { ...settings(), ...(lockUsers && { lockUsers }) }
      const place = callerPath(path)
      if (time && !statSync(place, { throwIfNoEntry: false })?.isDirectory())
        throw new UsageError(`--time: ${place} is not a folder of backups`)
      const source = await findBackup(place, time)
      for (const name of source.unfinished)
        say(`note: ${name} is not restored, because that backup did not end`)
      await checkGit()
      const { created_at, counts, locked } = await restoreAll(options, source, showProgress())
      for (const { name, imported, problem, content } of source.repositories) {
        if (!content) say(`${name} is not in the backup: ${problem}`)
        else if (problem)
          say(`${name} is as of ${content.copied_at}, because later it could not be read: ${problem}`)
        else if (imported !== null) say(`${name} is no longer served from ${imported}, but from DATA_DIR`)
      }
      const { users = 0, repositories = 0, tokens = 0, statuses = 0 } = counts
      const many = `${count(repositories, 'repository', 'repositories')}, ${count(tokens, 'token')}, ${count(statuses, 'status', 'statuses')}`
      say(`Restored from the backup of ${created_at}: ${count(users, 'user')}, ${many}.`)
      say(
        lockUsers
          ? `${count(locked, 'user')} locked. Unlock them one by one with "user unlock".`
          : 'In what was restored, everything done after that time is undone: tokens that were revoked work again, and so do users that were locked. ' +
              'Revoke and lock them again, or restore with --lock-users.',
      )
    })
}
