import { readFileSync } from 'node:fs'
import { Argument, type Command, type Option } from 'commander'
import { print } from '../parts/output.ts'

const SHELLS = ['bash', 'zsh']

export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>').choices(SHELLS))
    .description('print a script by which the shell completes commands and options')
    .action((shell: string) => {
      const script = new URL(`../completion/completion.${shell}`, import.meta.url)
      const choices = choicesOf(program, program.name(), program).map((words) => words.join('\t'))
      print(
        readFileSync(script, 'utf8')
          .trimEnd()
          .replace('@CHOICES@', () => choices.join('\n')),
      )
    })
}

/**
 * Returns what may follow a command and those below it, besides values that only the administrator
 * knows: the place, the word, and its meaning. An option with a value is a place too, with an empty
 * word if nobody else knows the value.
 */
function choicesOf(program: Command, place: string, command: Command): string[][] {
  const { commands, registeredArguments } = command
  const own = command === program ? [] : command.options
  const describe = ({ long, flags, description }: Option) => [place, long ?? flags, description]
  return [
    ...program.options.map(describe),
    [place, '--help', 'display help'],
    ...commands.map((child) => [place, child.name(), child.description()]),
    ...registeredArguments.flatMap(({ argChoices = [] }) => argChoices.map((choice) => [place, choice])),
    ...own.map(describe),
    ...[...program.options, ...own]
      .filter((option) => option.required)
      .flatMap(({ long, argChoices = [''] }) => argChoices.map((choice) => [`${place} ${long}`, choice])),
    ...commands.flatMap((child) => choicesOf(program, `${place}/${child.name()}`, child)),
  ]
}
