import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { openStore } from '../store/store.ts'
import { addBlockedCommands } from './blocked-commands.ts'
import { addCopyCommand } from './copy-command.ts'
import { warnOfExposed } from './exposed-warning.ts'
import { addMaintenanceCommands } from './maintenance-commands.ts'
import { addRepositoryCommands } from './repository-commands.ts'
import { addTokenCommands } from './token-commands.ts'
import { addUserCommands } from './user-commands.ts'
import type { WithStore } from './with-store.ts'

/** The administrator's command line. What a script wants to read goes to standard output, all else to standard error. */
export function createProgram(environment: NodeJS.ProcessEnv): Command {
  const withStore: WithStore = async (work) => {
    const config = readConfig(environment)
    const store = await openStore({ ...config, patient: true })
    await warnOfExposed(config.dataDir)
    try {
      await work(store, config)
    } finally {
      await store.close()
    }
  }
  const program = new Command('commit-status-admin')
    .description('Administers the commit status server: the same database, also while the server runs.')
    .exitOverride()
    .showHelpAfterError('(--help says more)')
    .configureOutput({ writeOut: (text) => process.stdout.write(text) })
  addUserCommands(program, withStore)
  addRepositoryCommands(program, withStore)
  addTokenCommands(program, withStore)
  addBlockedCommands(program, withStore)
  addCopyCommand(program, environment)
  addMaintenanceCommands(program, withStore)
  program
    .command('migrate')
    .description("bring the database's schema up to date (the server does so at start too)")
    .action(() =>
      withStore(async () => {
        process.stderr.write('The schema is up to date.\n')
      }),
    )
  return program
}
