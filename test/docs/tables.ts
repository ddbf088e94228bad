import { createProgram } from '../../src/cli/program.ts'
import { describeVariables } from '../../src/config.ts'
import { leaves, synopsis, usageOf } from '../../src/packaging/man-pages.ts'

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
