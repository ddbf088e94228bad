import { statSync } from 'node:fs'
import { type Command, InvalidArgumentError } from 'commander'
import { checkGit } from '../../git/git-version.ts'
import { backUp } from '../../maintenance/backup/back-up.ts'
import { findBackup, type RestoreSource, restoreAll } from '../../maintenance/backup/restore-all.ts'
import { RuleViolation } from '../../store/rule-violation.ts'
import { callerPath, UsageError } from '../parts/arguments.ts'
import { count, say } from '../parts/output.ts'
import { showProgress } from '../parts/progress.ts'
import type { Settings, WithStore } from '../parts/with-store.ts'

export function addBackupCommands(program: Command, withStore: WithStore, settings: Settings): void {
  program
    .command('backup')
    .argument('<folder>')
    .description('back up the database and the repositories to a folder; the server may be running')
    .option('--keep <number>', 'how many backups to keep in the folder', keepOption, 7)
    .option('--imported', 'also back up imported repositories')
    .addHelpText(
      'after',
      `
Each backup contains users, repositories, access, tokens (as hashes), the audit log, statuses, and the refs and objects of repositories.
Backups in one folder share objects. A backup that does not end leaves those before it complete.`,
    )
    .action((path: string, { keep, imported = false }: { keep: number; imported?: boolean }) =>
      withStore.reading(async (store) => {
        const folder = callerPath(path)
        if (statSync(folder, { throwIfNoEntry: false })?.isFile())
          throw new RuleViolation(
            `${folder} is a file: a backup is a folder, which also contains the repositories`,
          )
        await checkGit()
        const progress = showProgress()
        const done = await backUp(store, folder, { keep, imported }, (table, done, total) =>
          progress(`backup ${table}`, done, total ?? done),
        )
        for (const name of done.left) say(`not included: ${name} is imported (--imported includes it)`)
        for (const problem of done.problems) say(problem)
        if (done.problems.length > 0)
          throw new RuleViolation(
            `${count(done.problems.length, 'repository', 'repositories')} could not be read; the new backup has the state of the backup before, if that had it`,
          )
        const size = `${count(done.repositories, 'repository', 'repositories')}, ${count(done.refs, 'ref')}`
        // Cron would send it by mail.
        if (process.stderr.isTTY) say(`The backup is complete: ${size}.`)
      }),
    )

  program
    .command('restore')
    .argument('<path>')
    .description('restore a folder of backups, or a single file, into an empty place')
    .option(
      '--time <time>',
      'restore the newest backup of this time (UTC), such as 2026-11-22 or 2026-11-22T03',
      '',
    )
    .option('--lock-users', 'lock all users, to be unlocked one by one')
    .action(async (path: string, { time, lockUsers = false }: { time: string; lockUsers?: boolean }) => {
      const config = settings()
      const found = callerPath(path)
      const isFolder = statSync(found, { throwIfNoEntry: false })?.isDirectory()
      if (time && !isFolder) throw new UsageError(`--time: ${found} is not a folder of backups`)
      const file: RestoreSource = { file: found, folder: found, repositories: [] }
      const source = isFolder ? await findBackup(found, time) : file
      await checkGit()
      const interrupted = new AbortController()
      const stop = () => interrupted.abort(new RuleViolation('interrupted: nothing was restored'))
      process.once('SIGINT', stop).once('SIGTERM', stop)
      const progress = showProgress()
      const { createdAt, counts, locked } = await restoreAll(
        { ...config, create: 'restore' },
        source,
        { lockUsers, signal: interrupted.signal },
        (table, done, total) => progress(`restore ${table}`, done, total ?? done),
      )
      for (const { name, imported, problem, content } of source.repositories) {
        if (!content) say(`${name} is not in the backup: ${problem ?? 'it was deleted while that was made'}`)
        else if (problem)
          say(`${name} is as of ${content.copied_at}, because later it could not be read: ${problem}`)
        else if (imported !== null) say(`${name} is no longer served from ${imported}, but from DATA_DIR`)
      }
      const numbers = [
        count(counts.users ?? 0, 'user'),
        count(counts.repositories ?? 0, 'repository', 'repositories'),
        count(counts.tokens ?? 0, 'token'),
        count(counts.statuses ?? 0, 'status', 'statuses'),
      ]
      say(`Restored from the backup of ${createdAt}: ${numbers.join(', ')}.`)
      say(
        lockUsers
          ? `${count(locked, 'user')} locked. Unlock them one by one with "user unlock".`
          : 'What was done after that time is undone: tokens that were revoked work again, and so do users that were locked. ' +
              'Revoke and lock them again, or restore with --lock-users.',
      )
    })
}

function keepOption(text: string): number {
  const keep = Number(text)
  if (!Number.isInteger(keep) || keep < 1)
    throw new InvalidArgumentError('It must be a number of at least 1.')
  return keep
}
