import { Command } from 'commander'
import { versionText } from '../runtime.ts'
import { addAuditCommands } from './commands/audit.ts'
import { addBackupCommands } from './commands/backup.ts'
import { addBlockedCommands } from './commands/blocked.ts'
import { addCompletionCommand } from './commands/completion.ts'
import { addGroupCommands } from './commands/group.ts'
import { addMaintenanceCommands } from './commands/maintenance.ts'
import { addRepositoryCommands } from './commands/repository.ts'
import { addRuleCommands } from './commands/rule.ts'
import { addStatusCommands } from './commands/status.ts'
import { addTokenCommands } from './commands/token.ts'
import { addUserCommands } from './commands/user.ts'
import { say } from './parts/output.ts'
import { settingsOf, withStore } from './parts/with-store.ts'

/**
 * Returns the administrator's command line. Machine-readable output goes to stdout, everything else
 * to stderr.
 *
 * @param args what `--version` looks for `--json` in
 */
export function createProgram(environment: NodeJS.ProcessEnv, args: readonly string[] = []): Command {
  const program = new Command('commit-status-admin')
    .description('Administers the commit status server, also while it is running.')
    .option(
      '--env-file <file>',
      'read the variables of the service from a file, as systemd does; variables that are already set take precedence',
    )
    .version(
      versionText(args),
      '--version',
      'print the version; with --json also those of the contract and of Node.js, and the commit',
    )
    .exitOverride()
    .configureOutput({ writeOut: (text) => process.stdout.write(text) })
  const settings = settingsOf(program, environment)
  addUserCommands(program, settings)
  addGroupCommands(program, settings)
  addRepositoryCommands(program, settings)
  addRuleCommands(program, settings)
  addTokenCommands(program, settings)
  addStatusCommands(program, settings)
  addBlockedCommands(program, settings)
  addAuditCommands(program, settings)
  addBackupCommands(program, settings)
  addMaintenanceCommands(program, settings)
  program
    .command('migrate')
    .description('create the database, or bring its schema up to date; the server does both when it starts')
    .action(() => withStore(settings, async () => say('The schema is up to date.'), { create: 'migrate' }))
  addCompletionCommand(program)
  nameHelp(program)
  return program
}

/** Returns where the help of a command is. */
export function helpOf(command: Command): string {
  const names: string[] = []
  for (let each: Command | null = command; each; each = each.parent) names.unshift(each.name())
  return `(see ${names.join(' ')} --help)`
}

/** Makes a command, and all below it, name their own help in errors. */
function nameHelp(command: Command): void {
  command.showHelpAfterError(helpOf(command))
  for (const each of command.commands) nameHelp(each)
}
