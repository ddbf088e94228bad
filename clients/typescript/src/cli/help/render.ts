import { exitCodeTable } from '../exit-codes.ts'
import { type CommandHelp, commandHelp } from './commands.ts'

const ENVIRONMENT = [
  ['COMMIT_STATUS_URL', 'address of the service'],
  ['COMMIT_STATUS_TOKEN', 'a personal access token'],
  ['COMMIT_STATUS_REPO', "repository, where the CI system's name is not OWNER/NAME"],
  ['COMMIT_STATUS_TIMEOUT', 'longest time of all attempts of one request, 30s by default'],
  ['HTTPS_PROXY, NO_PROXY', 'a proxy (Node 24.14 or later), and hosts to reach without it'],
  ['NODE_EXTRA_CA_CERTS', 'a file with the certificate of a private CA'],
  ['NO_COLOR, FORCE_COLOR', 'whether states have colors'],
] as const

/** Returns the help about all commands. */
export function renderHelp(): string {
  const commands = Object.entries(commandHelp).map(([name, { summary }]) => [name, summary] as const)
  return `Usage: commit-status COMMAND [OPTION…]

Reports and reads the results of checks on commits.

Commands:
${columns(commands)}

commit-status COMMAND --help explains one command.

Environment:
${columns(ENVIRONMENT)}

Exit codes:
${columns(exitCodeTable.map(({ code, meaning, commands }) => [`${code}`, `${meaning} (${commands.join(', ')})`]))}
  run ends with the exit code of its command; land that a signal ends, and work that
  a second one ends, with 128 plus its number.
`
}

/** Returns the help about one command. */
export function renderCommandHelp(
  name: string,
  { usage, summary, details, options, example }: CommandHelp,
): string {
  const rows = Object.entries(options).map(
    ([option, [value, meaning]]) => [`--${option}${value && ` ${value}`}`, meaning] as const,
  )
  const codes = exitCodeTable.filter(({ commands }) => commands.includes(name))
  const own =
    name === 'run'
      ? '\n  Otherwise that of COMMAND, which can be one of these too. 5 is only for --strict.'
      : ''
  const sections = [
    `Usage: commit-status ${usage}`,
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.${details ? `\n${details}` : ''}`,
    rows.length > 0 && `Options:\n${columns(rows)}`,
    codes.length > 0 &&
      `Exit codes:\n${columns(codes.map(({ code, meaning }) => [`${code}`, meaning]))}${own}`,
    `Example:\n  commit-status ${example}`,
  ]
  return `${sections.filter(Boolean).join('\n\n')}\n`
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length)) + 2
  return rows.map(([name, meaning]) => `  ${name.padEnd(width)}${meaning}`).join('\n')
}
