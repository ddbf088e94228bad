import type { Command } from 'commander'
import { readConfig, readDatabaseUrl } from '../config.ts'
import { copyStore } from '../maintenance/copy/copy.ts'
import { warnOfExposed } from './exposed-warning.ts'
import { showProgress } from './progress.ts'
import { UsageError } from './usage-error.ts'

export function addCopyCommand(program: Command, environment: NodeJS.ProcessEnv): void {
  program
    .command('copy')
    .description('copy everything to the PostgreSQL database that COPY_TO_DATABASE_URL names, and compare')
    .addHelpText(
      'after',
      `
Stop the server first: what it stores from now on is not copied. One that was interrupted goes on when it is called
again. Then start the server with DATABASE_URL set to the new database and the same DATA_DIR, where the repositories stay.`,
    )
    .action(async () => {
      const target = readDatabaseUrl('COPY_TO_DATABASE_URL', environment.COPY_TO_DATABASE_URL)
      if (!target) throw new UsageError('COPY_TO_DATABASE_URL must name the PostgreSQL database to copy to')
      const config = readConfig(environment)
      await warnOfExposed(config.dataDir)
      const progress = showProgress()
      await copyStore(config, target, ({ phase, table, done, total }) =>
        progress(`${phase} ${table}`, done, total),
      )
      process.stderr.write('The two databases are equal.\n')
    })
}
