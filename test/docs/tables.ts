import type { Argument, Command, Option } from 'commander'
import { createProgram } from '../../src/cli/program.ts'
import { describeVariables } from '../../src/config.ts'

/** Returns the rows of the table of variables, as the operator's guide must have them. */
export function variableRows(): string[] {
  return describeVariables().map(
    ({ name, default: value, meaning }) => `| \`${name}\` | ${cell(value)} | ${cell(meaning)} |`,
  )
}

/** Returns the rows of the table of commands, as the operator's guide must have them. */
export function commandRows(): string[] {
  const program = createProgram({})
  const options = program.options.map((option) => row(usageOf(option), option.description))
  return [
    ...options,
    ...leaves(program).map(({ path, command }) => row(synopsis(path, command), command.description())),
  ]
}

function row(usage: string, meaning: string): string {
  return `| \`${cell(usage)}\` | ${cell(meaning)} |`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}

/** Returns each command of the program with the words that call it. */
function leaves(command: Command, path: string[] = []): { path: string[]; command: Command }[] {
  if (command.commands.length === 0) return [{ path, command }]
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]))
}

/** Returns how a command is called. */
function synopsis(path: string[], command: Command): string {
  const options = command.options.map((option) =>
    option.mandatory ? usageOf(option) : `[${usageOf(option)}]`,
  )
  return [...path, ...command.registeredArguments.map(argumentOf), ...options].join(' ')
}

/** Returns `--name VALUE`, or `--name` where the option takes none. */
function usageOf(option: Option): string {
  const [, value] = /<([^<>]*)>/.exec(option.flags) ?? []
  if (value === undefined) return option.long ?? option.flags
  return `${option.long} ${option.argChoices?.join('|') ?? value.toUpperCase()}`
}

function argumentOf(argument: Argument): string {
  const name = argument.argChoices?.join('|') ?? argument.name().toUpperCase()
  const text = argument.variadic ? `${name}...` : name
  return argument.required ? text : `[${text}]`
}
