import type { Command } from 'commander'
import { readDatabaseUrl } from '../config.ts'
import { copyStore } from '../maintenance/copy/copy.ts'
import { openStore } from '../store/store.ts'
import { warnOfExposed } from './exposed-warning.ts'
import { showProgress } from './progress.ts'
import { UsageError } from './usage-error.ts'
import type { Settings } from './with-store.ts'

export function addCopyCommand(program: Command, settings: () => Promise<Settings>): void {
  program
    .command('copy')
    .description('copy everything to the PostgreSQL database in COPY_TO_DATABASE_URL, and compare the two')
    .addHelpText(
      'after',
      `
Stop the server first: later writes are not copied. An interrupted copy resumes when you run the command again. Then start
the server with DATABASE_URL set to the new database and the same DATA_DIR, where the repositories stay.`,
    )
    .action(async () => {
      const { environment, config } = await settings()
      const target = readDatabaseUrl('COPY_TO_DATABASE_URL', environment.COPY_TO_DATABASE_URL)
      if (!target)
        throw new UsageError(
          'COPY_TO_DATABASE_URL is not set; set it to the URL of the PostgreSQL database to copy to',
        )
      // Makes sure that there is something to copy: the copy itself would create an empty database.
      await (await openStore({ ...config, statementTimeout: false, create: false })).close()
      await warnOfExposed(config.dataDir)
      const progress = showProgress()
      await copyStore(config, target, ({ phase, table, done, total }) =>
        progress(`${phase} ${table}`, done, total),
      )
      process.stderr.write('The two databases are equal.\n')
    })
}
