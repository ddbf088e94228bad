import type { Argument, Command, Option } from 'commander'
import { createProgram } from '../cli/program.ts'
import { describeVariables } from '../config.ts'
import { version } from '../runtime.ts'

/** Returns the manual pages of both programs as troff reads them, by their path in the package. */
export function manPages(): Record<string, string> {
  const program = createProgram({})
  const variables = describeVariables().map(({ name, default: value, meaning }) =>
    item(name, `${meaning} (default: ${value})`),
  )
  const versionOption = program.options.find(({ long }) => long === '--version')
  return {
    'man/commit-status-server.1': page(
      'commit-status-server',
      'serves the commit status API, git over HTTP and the pages',
      {
        SYNOPSIS: plain('commit-status-server [--help | --version [--json]]'),
        DESCRIPTION: plain(
          'It is configured by environment variables, and administered with commit-status-admin.',
        ),
        OPTIONS: item('--help', 'print the variables') + item('--version', versionOption?.description ?? ''),
        ENVIRONMENT: variables.join(''),
        SIGNALS: plain(
          'SIGTERM and SIGINT finish the requests in progress and end the server; a second one cuts them off.',
        ),
        'EXIT STATUS':
          item('0', 'it was stopped') + item('1', 'it could not start') + item('2', 'usage error'),
        'SEE ALSO': '.BR commit\\-status\\-admin (1)\n',
      },
    ),
    'man/commit-status-admin.1': page('commit-status-admin', 'administers the commit status server', {
      SYNOPSIS: plain('commit-status-admin [--env-file FILE] COMMAND'),
      DESCRIPTION: plain(
        'Works on the database of a running server too. The variables of commit-status-server(1) say which one.',
      ),
      OPTIONS: program.options.map(optionItem).join(''),
      COMMANDS: leaves(program)
        .map(
          ({ path, command }) =>
            `.SS "${troff(synopsis(path, command))}"\n${plain(command.description())}${command.options.map(optionItem).join('')}`,
        )
        .join(''),
      'EXIT STATUS': ['done', 'the command failed', 'usage error', 'what was to be created exists']
        .map((meaning, code) => item(`${code}`, meaning))
        .join(''),
      'SEE ALSO': '.BR commit\\-status\\-server (1)\n',
    }),
  }
}

function page(name: string, meaning: string, sections: Record<string, string>): string {
  const title = `.TH ${troff(name.toUpperCase())} 1 "" "${troff(`commit-status-server ${version}`)}"\n`
  const all = { NAME: plain(`${name} - ${meaning}`), ...sections }
  return (
    title +
    Object.entries(all)
      .map(([head, text]) => `.SH ${head}\n${text}`)
      .join('')
  )
}

function item(term: string, text: string): string {
  return `.TP\n.B ${troff(term)}\n${plain(text)}`
}

function optionItem(option: Option): string {
  return item(usageOf(option), option.description)
}

function plain(text: string): string {
  // At the start of a line a dot or an apostrophe would be a request.
  return `\\&${troff(text)}\n`
}

/** Keeps hyphens, which can then be searched and copied, and backslashes as they are. Quotes would end an argument. */
function troff(text: string): string {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('"', '\\(dq')
}

/** Returns each command of the program with the words that call it. */
export function leaves(command: Command, path: string[] = []): { path: string[]; command: Command }[] {
  if (command.commands.length === 0) return [{ path, command }]
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]))
}

/** Returns how a command is called. */
export function synopsis(path: string[], command: Command): string {
  const options = command.options.map((option) =>
    option.mandatory ? usageOf(option) : `[${usageOf(option)}]`,
  )
  return [...path, ...command.registeredArguments.map(argumentOf), ...options].join(' ')
}

/** Returns `--name VALUE`, or `--name` where the option takes none. */
export function usageOf(option: Option): string {
  const [, value] = /<([^<>]*)>/.exec(option.flags) ?? []
  if (value === undefined) return option.long ?? option.flags
  return `${option.long} ${option.argChoices?.join('|') ?? value.toUpperCase()}`
}

function argumentOf(argument: Argument): string {
  const text = argument.argChoices?.join('|') ?? argument.name().toUpperCase()
  return argument.required ? text : `[${text}]`
}
